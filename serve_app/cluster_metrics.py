"""Every node's metrics, ours among them, as one Prometheus page."""

from __future__ import annotations

import asyncio

import httpx
import ray

NODE_S = 3.0


async def cluster_metrics() -> str:
    """Ray exports a node's metrics on a port of the node; this joins what the living nodes answer."""
    urls = [f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
            for node in await asyncio.to_thread(ray.nodes) if node["Alive"] and node["MetricsExportPort"]]
    async with httpx.AsyncClient(timeout=NODE_S) as client:
        answers = await asyncio.gather(*(client.get(url) for url in urls), return_exceptions=True)
    lines: dict[str, None] = {}         # in order, each once: every node brings the same HELP and TYPE lines
    for url, answer in zip(urls, answers, strict=True):
        if isinstance(answer, BaseException):
            lines[f"# {url} does not answer: {type(answer).__name__}"] = None
        else:
            lines.update(dict.fromkeys(answer.text.splitlines()))
    return "\n".join(lines) + "\n"
