"""Settings in, bound deployments out: what ``import_path`` in ``config.yaml`` names.

No postponed annotations here: Serve reads the type of ``args`` off the function to validate what the file says.
"""

from typing import Any

from ray import serve
from ray.serve import Application

from deployments.acoustic.deployment import AcousticStage
from deployments.text_frontend.deployment import TextFrontendStage
from deployments.vocoder.deployment import VocoderStage
from serve_app.ingress import Ingress
from serve_app.settings import ServiceSettings


def build(args: ServiceSettings) -> Application:
    """The application: one frontend, an acoustic and a vocoder deployment a family, and the ingress.

    Resources, replica counts and batching of each deployment come from ``deployments`` in ``config.yaml``.
    """
    stages: dict[str, Any] = {}
    for family in args.families:
        stages[family] = (
            # An empty user_config makes Serve call reconfigure(), where a stage warms up, even where
            # config.yaml gives none.
            serve.deployment(AcousticStage, name=f"{family}-acoustic", user_config={}).bind(family),
            serve.deployment(VocoderStage, name=f"{family}-vocoder", user_config={}).bind(family),
        )
    frontend = serve.deployment(TextFrontendStage, name="text-frontend", user_config={}).bind()
    return serve.deployment(Ingress, name="ingress").bind(args, frontend, stages)
