"""Downloads: said beforehand, done once, and never when offline. A small server on this machine stands in for the Hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from watchword.errors import DownloadError
from watchword.xclip import XClip, XClipConfig, save_huggingface
from watchword.xclip.config import Preprocessing

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "microsoft/xclip-base-patch32"


class Hub:
    """Serves a folder as one repository."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def answer(self, *, body: bool) -> None:
                hub.requests.append(f"{self.command} {self.path}")
                path = self.path.partition("?")[0]
                name = path.removeprefix(f"/{REPOSITORY}/resolve/").partition("/")[2]
                if path.startswith(f"/api/models/{REPOSITORY}"):
                    siblings = [{"rfilename": file.name, "size": file.stat().st_size} for file in sorted(folder.iterdir())]
                    content = json.dumps({"id": REPOSITORY, "sha": COMMIT, "siblings": siblings}).encode()
                elif name and (folder / name).is_file():
                    content = (folder / name).read_bytes()
                else:
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound" if name else "RepoNotFound")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
                self.end_headers()
                if body:
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    config = XClipConfig(
        image_size=32,
        patch_size=16,
        vision_width=64,
        vision_layers=1,
        embed_dim=64,
        text_width=64,
        text_layers=1,
        vocab_size=100,
        preprocessing=Preprocessing.official(32),
    )
    save_huggingface(XClip(config), tmp_path / "repository")
    (tmp_path / "repository" / "flax_model.msgpack").write_bytes(b"0" * 1000)
    hub = Hub(tmp_path / "repository")
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}")
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


def test_a_repository_is_announced_and_downloaded_once(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("xclip_base_patch32.k400_8f", REPOSITORY, "k400_32_8.pth")
    models = [XClip.from_pretrained(name, cache_dir=tmp_path / "cache") for name in names]
    assert {model.config.weights for model in models} == {"xclip_base_patch32.k400_8f"}
    assert models[0].config.preprocessing == Preprocessing.official(32)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("downloading")]
    size = sum((tmp_path / "repository" / name).stat().st_size for name in ("config.json", "model.safetensors", "preprocessor_config.json"))
    assert said == [f"downloading {REPOSITORY} ({size / 1e6:,.1f} MB) from {hub.address} to {tmp_path / 'cache'}"]
    assert not any("msgpack" in request for request in hub.requests)

    asked = len(hub.requests)
    assert XClip.from_pretrained(REPOSITORY, cache_dir=tmp_path / "cache", offline=True).config == models[0].config
    assert len(hub.requests) == asked


def test_nothing_is_asked_for_offline(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DownloadError, match=rf"{REPOSITORY} is not on this machine.*'playground'"):
        XClip.from_pretrained(REPOSITORY, cache_dir=tmp_path / "cache", offline=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DownloadError, match=r"xclip-base-patch16-zero-shot is not on this machine.*'playground'") as caught:
        XClip.from_pretrained("xclip_base_patch16.zero_shot_32f", cache_dir=tmp_path / "cache")
    assert "\n" not in str(caught.value) and not hub.requests


def test_what_the_hub_does_not_have_is_one_line(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="could not download someone/else from http") as caught:
        XClip.from_pretrained("someone/else", cache_dir=tmp_path / "cache")
    assert "\n" not in str(caught.value)
    (tmp_path / "repository" / "model.safetensors").unlink()
    with pytest.raises(DownloadError, match=r"has no model\.safetensors or pytorch_model\.bin"):
        XClip.from_pretrained(REPOSITORY, cache_dir=tmp_path / "cache")


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DownloadError, match=r"could not download a/b from http://127\.0\.0\.1:1.*'playground'") as caught:
        XClip.from_pretrained("a/b", cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
