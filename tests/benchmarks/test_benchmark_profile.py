"""The profiler counts correctly, and the curves can be drawn. No figure is judged here."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path

import pytest

from benchmarks import profile
from benchmarks.sampling import CannotSample, Sampled, Sampler

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 0.3


def spend(sampler: Sampler) -> None:
    """CPU time in a function of zlib, called from here, and none elsewhere."""
    block = bytes(10_000_000)
    sampler.start()
    began = time.process_time()
    while time.process_time() - began < SECONDS:
        zlib.crc32(block)
    sampler.stop()


@pytest.fixture
def sampled() -> Sampled:
    try:
        sampler = Sampler()
    except CannotSample as reason:
        pytest.skip(str(reason))
    try:
        spend(sampler)
    finally:
        found = sampler.close()
    return found


def test_a_sample_knows_the_library_and_the_python_function(sampled: Sampled) -> None:
    total = sampled.counts.total()
    in_c = sum(count for (name, code), count in sampled.counts.items() if "zlib" in name or "libz" in name)
    here = sum(count for (_, code), count in sampled.counts.items() if code is spend.__code__)

    assert total > 20
    assert in_c > total * 0.8
    assert here > total * 0.8


def test_every_sample_has_an_owner() -> None:
    assert "SQLite" == profile.owner("libsqlite3.so.0.8.6", None)
    assert "msgpack" == profile.owner("_cmsgpack.cpython-311-x86_64-linux-gnu.so", None)
    assert "C library" == profile.owner("libc.so.6", spend.__code__)
    assert "other" == profile.owner("libpython3.11.so.1.0", spend.__code__)
    assert "reactdb" == profile.owner(
        "libpython3.11.so.1.0", compile("1", f"{ROOT}/reactdb/table.py", "exec")
    )


@pytest.mark.slow
def test_a_profile_of_a_workload_has_shares_that_make_up_the_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "profile.json"
    status = profile.main(["--quick", "--workload", "W10-get", "--functions", "3", "--json", str(file)])
    if status:
        pytest.skip(capsys.readouterr().err)
    [found] = json.loads(file.read_text())["profiles"]
    assert found["samples"] > 0
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert "W10-get" in capsys.readouterr().out
