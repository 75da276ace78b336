"""Files from the Hugging Face Hub: never silently, once, and not at all when offline."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError, HTTPError  # type: ignore[attr-defined]  # of whichever HTTP client the Hub's library uses
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # documented, if not exported

from ..errors import DownloadError

__all__ = ["fetch", "is_repository_id"]


def is_repository_id(name: str) -> bool:
    """Whether the Hub could have a repository of this name, owner included."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return "/" in name


def fetch(
    repository: str,
    files: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool = False,
    token: str | bool | None = None,
) -> list[Path]:
    """Local paths of a repository's files, from the cache or else downloaded into it.

    Args:
        files: for each file that is needed, its possible names, the best first.
        optional: files that are taken along if the repository has them.
        offline: do not touch the network; the environment variable HF_HUB_OFFLINE=1 says the same.

    Returns the needed files in order, then those optional ones that exist. What is downloaded, how big it is, and from where
    is said on standard error before it starts.

    Raises DownloadError: offline and not in the cache, or the Hub cannot be reached or does not have it.
    """

    def cached(name: str) -> Path | None:
        found = try_to_load_from_cache(repository, name, cache_dir=cache_dir, revision=revision)
        return Path(found) if isinstance(found, str) else None

    def first_cached(names: Sequence[str]) -> Path | None:
        return next((path for path in map(cached, names) if path is not None), None)

    here = [first_cached(names) for names in files]
    if all(here):
        return [path for path in [*here, *map(cached, optional)] if path is not None]
    if offline or constants.is_offline_mode() or os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES:
        raise DownloadError(
            f"{repository} is not on this machine and downloads are off: run once with network, or copy the repository from "
            f"{constants.ENDPOINT}/{repository} to a folder and give its path; the bundled model 'playground' needs no download"
        )
    try:
        return _download(repository, files, optional, revision, cache_dir, token)
    except (HTTPError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DownloadError(
            f"could not download {repository} from {constants.ENDPOINT} ({reason}): check the name and the network, or give the "
            "path of a local copy; the bundled model 'playground' needs no download"
        ) from error


def _download(
    repository: str,
    files: Sequence[Sequence[str]],
    optional: Sequence[str],
    revision: str | None,
    cache_dir: str | Path | None,
    token: str | bool | None,
) -> list[Path]:
    hub = HfApi(endpoint=constants.ENDPOINT, token=token)
    info = hub.model_info(repository, revision=revision, files_metadata=True)
    sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or []}
    chosen = []
    for names in files:
        name = next((name for name in names if name in sizes), None)
        if name is None:
            raise DownloadError(
                f"{repository} on {constants.ENDPOINT} has no {' or '.join(names)}: it holds no weights that Watchword reads"
            )
        chosen.append(name)
    chosen += [name for name in optional if name in sizes]
    megabytes = sum(sizes[name] for name in chosen) / 1e6
    where = cache_dir or constants.HF_HUB_CACHE
    print(f"downloading {repository} ({megabytes:,.1f} MB) from {constants.ENDPOINT} to {where}", file=sys.stderr)
    return [Path(hub.hf_hub_download(repository, name, revision=revision, cache_dir=cache_dir)) for name in chosen]
