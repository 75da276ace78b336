"""Several processes: the numbers of one process, whatever the layout, also after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from parallel_runs import PROGRAMS, every_state_kept, program, trained
from test_training import SUPERVISED

from watchword.playground import write_folder
from watchword.training.checkpoint import load_state
from watchword.weights.states import read_state

LAYOUTS = ("ddp", "fsdp")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@dataclass
class Runs:
    """``folder`` holds the runs of ``parallel_runs``. ``killed``: each layout's exit code and messages of a run that lost a process."""

    folder: Path
    one: dict[str, Any]
    two: list[dict[str, Any]]  # what each of two processes got
    killed: dict[str, tuple[int, str]]

    def state(self, run: str, step: int) -> dict[str, Any]:
        return load_state(self.folder / run / f"state-{step}.pt") or {}

    def weights(self, run: str) -> dict[str, torch.Tensor]:
        return read_state(self.folder / run / "model" / "model.safetensors")

    def losses(self, run: str) -> list[float]:
        lines = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    with every_state_kept():
        one = {name: trained(name, "one", folder / f"{name}-one") for name in PROGRAMS}
    write_folder(folder / "clips", 7, size=64, duration_seconds=0.5)
    annotations = str(folder / "clips" / "annotations.csv")
    values = {**SUPERVISED, "trained": "video", "data": {"kind": "videos", "annotations": annotations, "held_out": annotations}}
    values["training"] = {**SUPERVISED["training"], "num_steps": 24}
    recipe = folder / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(values))
    killed = {layout: lose_a_process(recipe, folder / f"killed-{layout}", layout) for layout in LAYOUTS}
    script = str(Path(__file__).with_name("parallel_runs.py"))
    done = subprocess.run([*TORCHRUN, script, str(folder), str(recipe)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    two = [json.loads((folder / f"results-{rank}.json").read_text()) for rank in range(2)]
    return Runs(folder, one, two, killed)


def lose_a_process(recipe: Path, out: Path, layout: str) -> tuple[int, str]:
    """Train by the command line and kill one of the two processes when a few steps are done."""
    train = ["-m", "watchword", "train", str(recipe), "--out", str(out), "--set", f"training.parallel={layout}", "--device", "cpu"]
    with (out.parent / "messages").open("w+") as messages:
        launcher = subprocess.Popen([*TORCHRUN, *train], stdout=messages, stderr=messages)
        metrics = out / "metrics.jsonl"
        while launcher.poll() is None and not (metrics.exists() and '"step": 5,' in metrics.read_text()):
            time.sleep(0.005)
        processes = children(launcher.pid)
        os.kill(processes[-1], signal.SIGKILL)
        launcher.wait(timeout=60)
        assert not any(Path(f"/proc/{process}").exists() for process in processes)
        messages.seek(0)
        return launcher.returncode, messages.read()


def children(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    return sorted(int(line) for line in listed.stdout.split())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_processes_give_the_numbers_of_one(runs: Runs, name: str, layout: str) -> None:
    single, several = f"{name}-one", f"{name}-{layout}"
    assert runs.losses(several) == pytest.approx(runs.losses(single), rel=1e-5, abs=1e-5)
    assert_close(gradients(runs.state(several, 1)), gradients(runs.state(single, 1)), 1e-5)
    assert_close(runs.weights(several), runs.weights(single), 1e-5)
    for results in runs.two:
        assert results[several] == pytest.approx(runs.one[name])
    best = [json.loads((runs.folder / run / "best" / "results.json").read_text()) for run in (single, several)]
    assert best[0].pop("weights_sha256") and best[1].pop("weights_sha256") and best[1] == pytest.approx(best[0])


def gradients(state: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Those of the first step, of which AdamW's mean holds a tenth."""
    return {name: values["exp_avg"] * 10 for name, values in state["optimizer"]["state"].items()}


def assert_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    assert all(found[name].shape == expected[name].shape for name in expected)
    off = {name: float((found[name] - expected[name]).abs().max()) for name in expected}
    assert max(off.values()) <= tolerance, max(off.items(), key=lambda item: item[1])


@pytest.mark.parametrize(("before", "after"), [("ddp", "fsdp"), ("fsdp", "ddp")])
def test_moments_of_two_bytes_go_from_layout_to_layout(runs: Runs, before: str, after: str) -> None:
    assert runs.losses(f"bfloat16-{before}-{after}") == pytest.approx(runs.losses(f"bfloat16-{before}")[1:], rel=1e-5)
    one, other = (runs.state(f"bfloat16-{run}", 3)["optimizer"]["state"] for run in (before, f"{before}-{after}"))
    assert all(values["exp_avg_sq"].dtype == torch.bfloat16 for state in (one, other) for values in state.values())
    assert all(torch.allclose(one[name]["exp_avg"].float(), other[name]["exp_avg"].float(), rtol=0.02, atol=1e-5) for name in one)


@pytest.mark.parametrize(("before", "after"), [("ddp", "fsdp"), ("fsdp", "ddp")])
def test_the_start_that_weights_are_pulled_to_goes_from_layout_to_layout(runs: Runs, before: str, after: str) -> None:
    started = {name: value.to(torch.bfloat16) for name, value in program("supervised").model.state_dict().items()}
    for step, run in ((1, before), (3, f"{before}-{after}")):
        state = runs.state(f"finetuning-{run}", step)["optimizer"]["state"]
        starts = {name: values["start"] for name, values in state.items() if "start" in values}
        assert "logit_scale" in starts and all(torch.equal(starts[name], started[name]) for name in starts)
    assert runs.losses(f"finetuning-{before}-{after}") == pytest.approx(runs.losses(f"finetuning-{before}")[1:], rel=1e-5)


def test_muon_moves_a_sharded_matrix_as_a_whole_one(runs: Runs) -> None:
    """To the precision it works in, bfloat16. Halves made orthogonal by themselves would be off by 0.3."""
    assert all(difference < 0.03 for results in runs.two for difference in results["muon"]), runs.two[0]["muon"]


def test_every_held_out_sample_counts_once(runs: Runs) -> None:
    assert [results["supervised-fsdp"]["num_held_out"] for results in runs.two] == [7, 7]
    assert runs.two[0]["whole-fsdp"]["num_held_out"] == 7


@pytest.mark.parametrize(("before", "after"), [("one", "ddp"), ("one", "fsdp"), ("ddp", "fsdp"), ("fsdp", "ddp")])
def test_a_state_of_one_layout_resumes_in_another(runs: Runs, before: str, after: str) -> None:
    resumed = f"supervised-{before}-{after}"
    assert_close(runs.weights(resumed), runs.weights("supervised-one"), 1e-5)
    assert runs.losses(resumed) == pytest.approx(runs.losses("supervised-one")[1:], rel=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_state_of_two_processes_resumes_in_one(runs: Runs, layout: str) -> None:
    resumed = f"supervised-{layout}-one"
    trained("supervised", "one", runs.folder / resumed, state_from=runs.folder / f"supervised-{layout}")
    assert_close(runs.weights(resumed), runs.weights("supervised-one"), 1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_losing_a_process_ends_the_run_with_a_line_and_it_resumes(runs: Runs, layout: str) -> None:
    code, messages = runs.killed[layout]
    whole, killed = f"whole-{layout}", f"killed-{layout}"
    assert code != 0
    lines = [line for line in messages.splitlines() if line.startswith("watchword:")]
    assert len(lines) <= 1 and all("goes on from the last saved step" in line for line in lines)  # none if torchrun was quicker
    assert_close(runs.weights(killed), runs.weights(whole), 1e-6)
    assert runs.losses(killed) == pytest.approx(runs.losses(whole), abs=1e-6) and len(runs.losses(whole)) == 24


def test_a_batch_too_small_for_the_processes_is_refused(runs: Runs) -> None:
    assert all("training.batch_size" in results["refused"] for results in runs.two)
