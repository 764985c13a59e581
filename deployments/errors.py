"""One way to fail: what went wrong, whose fault it is, and when to come back.

The stages raise these; the front turns them into the speech API's error shape. They hold plain data and
survive pickling, since they cross process boundaries.
"""

from __future__ import annotations


class SpeechError(Exception):
    """A failure with an answer for the client. ``status`` is the HTTP status, ``code`` a stable word."""

    status = 500
    code = "internal_error"
    retry_after_s: float | None = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None,
                 retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code
        self.retry_after_s = retry_after_s if retry_after_s is not None else type(self).retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.param, self.code, self.retry_after_s)


class BadRequest(SpeechError):
    """The request is wrong, and will be wrong again."""

    status = 400
    code = "invalid_value"


class NotFound(SpeechError):
    """What the request names is not here."""

    status = 404
    code = "not_found"


class TooLarge(SpeechError):
    """The request is over a limit that the operator set."""

    status = 413
    code = "too_large"


class Overloaded(SpeechError):
    """No room now; the same request can succeed later."""

    status = 503
    code = "overloaded"
    retry_after_s = 1.0


class TimedOut(SpeechError):
    """The request took longer than the operator allows."""

    status = 504
    code = "timeout"


def _rebuild(kind: type[SpeechError], message: str, param: str | None, code: str,
             retry_after_s: float | None) -> SpeechError:
    return kind(message, param=param, code=code, retry_after_s=retry_after_s)
