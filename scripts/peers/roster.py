"""The programs that are compared: how each is started, and what it does with late records.

`rule` is what examples/plain_loop is told to give the same answer; times are milliseconds.
"""
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# A part of the input is one micro-batch of Spark's.
PARTS = 20


@dataclass
class Settings:
    """What all are told."""

    slackwater: Path
    plain_loop: Path
    venvs: Path
    threads: int = 1
    delay: int = 5_000
    horizon: int = 60_000
    granularity: int = 1_000
    spark_memory: str = "4g"


@dataclass
class Data:
    """A file of generated orders."""

    file: Path
    rows: int
    keys: int

    @property
    def part_rows(self):
        return -(-self.rows // PARTS)

    def parts(self):
        """A folder with the same lines in parts, made when it is first asked for."""
        folder = self.file.with_suffix(".parts")
        if not folder.exists():
            aside = folder.with_suffix(".making")
            aside.mkdir()
            with open(self.file, "rb") as lines:
                for part in range(PARTS):
                    path = aside / f"part-{part:02}{self.file.suffix}"
                    with open(path, "wb") as out:
                        out.writelines(itertools.islice(lines, self.part_rows))
                    # Spark takes files in the order of their times.
                    os.utime(path, (1_700_000_000 + part, 1_700_000_000 + part))
            aside.rename(folder)
        return folder


@dataclass
class Peer:
    """One program, or one way to use it."""

    name: str
    title: str
    late: str
    rule: list = field(default_factory=lambda: ["late=all"])
    # Of the virtual environment, and what is installed there; the first package's version is shown.
    venv: str = ""
    packages: tuple = ()
    environment: dict = field(default_factory=dict)
    formats: tuple = ("ndjson", "csv")

    def command(self, settings, query, data, out):
        raise NotImplementedError

    def missing(self, settings):
        """Why it cannot be run, or nothing."""
        if not self.venv:
            return ""
        python = python_of(settings, self.venv)
        found = python.exists() and subprocess.run([python, "-c", f"import {self.module}"], capture_output=True)
        return "" if found and found.returncode == 0 else "not installed"

    @property
    def module(self):
        return {"apache-flink": "pyflink"}.get(self.packages[0], self.packages[0])

    def version(self, settings):
        """The package and its version."""
        ask = f"import importlib.metadata as m; print('{self.packages[0]}', m.version('{self.packages[0]}'))"
        return subprocess.run([python_of(settings, self.venv), "-c", ask], capture_output=True, text=True).stdout.strip()


def python_of(settings, venv):
    return settings.venvs / venv / "bin" / "python"


def install(settings, peer):
    """Makes the virtual environment of a peer, unless what it needs is there. A failure leaves the peer missing."""
    if not peer.missing(settings):
        return
    folder = settings.venvs / peer.venv
    steps = [[sys.executable, "-m", "venv", folder], [folder / "bin" / "pip", "install", "--quiet", *peer.packages]]
    for step in steps:
        if subprocess.run(step, stdout=sys.stderr).returncode != 0:
            print(f"bench-peers: {peer.title} could not be installed", file=sys.stderr)
            return


class Slackwater(Peer):
    def command(self, settings, query, data, out):
        by = "" if query == "q4" else "customer_id, "
        window = "TUMBLE(orders, event_time, INTERVAL '1 minute')"
        if query == "q2":
            window = "HOP(orders, event_time, INTERVAL '5 seconds', INTERVAL '1 minute')"
        program = out.with_suffix(".sql")
        program.write_text(
            f"""CREATE TABLE orders (customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP,
                  WATERMARK FOR event_time AS event_time - INTERVAL '{settings.delay} milliseconds')
                WITH (connector = 'file', path = '{data.file}', granularity = '{settings.granularity} milliseconds');
                CREATE MATERIALIZED VIEW windows WITH (horizon = '{settings.horizon} milliseconds') AS
                SELECT {by}window_start, window_end, count(*) AS orders, sum(amount) AS revenue
                FROM {window} GROUP BY {by}window_start, window_end;
                CREATE SINK answer FROM windows WITH (connector = 'file', path = '{out}', mode = 'metrics', format = 'csv');"""
        )
        return [settings.slackwater, "run", "--quiet", program, "-w", str(settings.threads)]


class Loop(Peer):
    def command(self, settings, query, data, out):
        return [settings.plain_loop, "run", query, data.file, out, *self.rule]


class Driver(Peer):
    """A Python script beside this one, or a program that takes the same arguments."""

    script: str
    mode: str = ""

    def command(self, settings, query, data, out):
        shared = [f"threads={settings.threads}", f"delay={settings.delay}", f"horizon={settings.horizon}"]
        shared += [f"granularity={settings.granularity}", f"memory={settings.spark_memory}", f"mode={self.mode}"]
        file = data.parts() if self.name == "spark" else data.file
        return [python_of(settings, self.venv), HERE / self.script, query, file, out, *shared]


def driver(script, mode="", **settings):
    peer = Driver(**settings)
    peer.script, peer.mode = script, mode
    return peer


class Dbsp(Peer):
    """A program over the dbsp crate, which is to be written and built elsewhere: the environment says where."""

    def missing(self, settings):
        return "" if os.environ.get("DBSP_PEER") else "not installed"

    def command(self, settings, query, data, out):
        return [os.environ["DBSP_PEER"], query, data.file, out, f"threads={settings.threads}"]


def roster(settings, data):
    """All peers; some rules depend on the file."""
    exact = [f"late={settings.horizon}", f"delay={settings.delay}", f"granularity={settings.granularity}"]
    minute = "corrected until the horizon, then dropped"
    delay = f"delay={settings.delay}"
    return [
        Slackwater(name="slackwater", title="Slackwater", late=minute, rule=exact),
        Loop(name="loop", title="plain loop (Rust)", late="added until the horizon, then dropped", rule=exact),
        driver(
            "duckdb_sql.py", "batch",
            name="duckdb", title="DuckDB", late="none: batch", venv="duckdb", packages=("duckdb",),
        ),
        driver(
            "duckdb_sql.py", "watermark",
            name="duckdb-watermark", title="DuckDB, watermark in SQL", late="dropped after the horizon",
            rule=exact, venv="duckdb", packages=("duckdb",),
        ),
        driver(
            "polars_lazy.py",
            name="polars", title="Polars", late="none: batch", venv="polars", packages=("polars",),
            environment={"POLARS_MAX_THREADS": str(settings.threads)},
        ),
        driver(
            "flink_sql.py",
            name="flink", title="Flink SQL", late="dropped once the window is closed",
            rule=["late=drop", "early=1", delay], venv="flink", packages=("apache-flink",), formats=("ndjson",),
        ),
        driver(
            "spark_streaming.py",
            name="spark", title="Spark Structured Streaming", late=f"dropped once closed, between {PARTS} batches",
            rule=["late=drop", f"batch={data.part_rows}", "lag=1", "open=leave", delay],
            venv="spark", packages=("pyspark",), formats=("ndjson",),
        ),
        Dbsp(name="dbsp", title="dbsp", late="none: every batch corrects"),
    ]
