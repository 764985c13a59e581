"""``python -m serve_app``: say, voices, check.

Each command imports what it needs when it runs, so that help comes at once.
"""

from __future__ import annotations

import argparse
import sys

from serve_app.units import parse_bytes


def main(words: list[str] | None = None) -> int:
    """Run the command that the words name. Returns its exit code."""
    arguments = _parser().parse_args(words)
    exit_code: int = arguments.run(arguments)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m serve_app", description="CosyServe's command line.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    say = commands.add_parser("say", help="speak a text into a file")
    say.add_argument("text", help="what to say; - reads it from standard input")
    say.add_argument("-o", "--output", required=True, help="the audio file; - writes to standard output")
    say.add_argument("--voice", default="heart")
    say.add_argument("--model", default="tts-1", help="as the service names it; the voice decides the rest")
    say.add_argument("--speed", type=float, default=1.0, help="0.25 to 4")
    say.add_argument("--format", help="by default, the output's extension")
    say.add_argument("--seed", type=int, default=0, help="the same seed gives the same audio")
    say.add_argument("--url", default="http://127.0.0.1:8000", help="the running service")
    say.add_argument("--local", action="store_true", help="speak in this process, without a service")
    say.set_defaults(run=_say)

    voices = commands.add_parser("voices", help="list the voices, and the names that stand for them")
    voices.set_defaults(run=_voices)

    check = commands.add_parser("check", help="check a config before Serve gets it")
    check.add_argument("config", nargs="?", default="config.yaml")
    check.add_argument("--node-memory", type=_bytes, metavar="AMOUNT",
                       help="Ray's memory resource of a node, such as 8GiB; by default, this machine's")
    check.add_argument("--node-cpus", type=float, metavar="N",
                       help="CPUs of a node; by default, this machine's")
    check.add_argument("--nodes", type=int, default=1, metavar="N", help="how many such nodes there are")
    check.add_argument("--write", action="store_true",
                       help="first put bytes in place of readable reservations such as 500MiB")
    check.add_argument("--settings", action="store_true", help="describe every setting instead")
    check.set_defaults(run=_check)
    return parser


def _bytes(written: str) -> int:
    try:
        return parse_bytes(written)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _say(arguments: argparse.Namespace) -> int:
    from serve_app.say import run
    return run(arguments)


def _voices(_: argparse.Namespace) -> int:
    from deployments.families import FAMILIES
    from serve_app.settings import ServiceSettings

    aliases = ServiceSettings().voice_aliases
    for family in FAMILIES.values():
        for voice in family.voices:
            names = [alias for alias, meant in aliases.items() if meant == voice.id]
            print(f"{voice.id:12}{voice.language:8}{family.id:12}{', '.join(names)}".rstrip())
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from serve_app.check import run
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
