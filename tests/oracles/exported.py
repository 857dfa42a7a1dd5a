"""Reads exported tables back with pandas and DuckDB, and holds them against the session's own logs.

    exported.py SESSION FOLDER

FOLDER holds WHAT.csv and WHAT.parquet for each WHAT. PYTHONPATH must name the folder that `.ci/from-pypi readers` prints.
"""

import json
import math
import statistics
import sys
from pathlib import Path

import duckdb
import pandas

session, folder = Path(sys.argv[1]), Path(sys.argv[2])
NUMBERS = {"duration_s", "load_wait_s", "loss", "time_s", "value", "started_time_s", "power_w", "energy_j", "cpus_busy"}


def lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def logs():
    for run in sorted((session / "runs").iterdir()):
        for log in sorted(run.glob("rank-*.jsonl")):
            yield run.name, int(log.stem.removeprefix("rank-")), lines(log)


def without_apostrophes(table):
    """CSV keeps text from being computed by spreadsheets."""
    return table.map(lambda value: value[1:] if isinstance(value, str) and value[:2] in ("'=", "'+", "'-", "'@") else value)


def from_csv(what):
    # pandas guesses the last digit unless it is told to read all of them.
    return pandas.read_csv(folder / f"{what}.csv", dtype_backend="numpy_nullable", float_precision="round_trip")


def from_parquet(what):
    return pandas.read_parquet(folder / f"{what}.parquet", dtype_backend="numpy_nullable")


def by_duckdb(what, ending):
    table = folder / f"{what}.{ending}"
    source = f"read_csv('{table}')" if ending == "csv" else f"'{table}'"
    return duckdb.sql(f"SELECT * FROM {source}").df()


def lacks_value(value):
    return value is None or value is pandas.NA or (isinstance(value, float) and math.isnan(value))


def key_of(row, keys):
    return tuple(None if lacks_value(row.get(key)) else row[key] for key in keys)


def same(a, b, where):
    """Equal, or both unknown or no number."""
    lacks = [lacks_value(a), lacks_value(b)]
    assert all(lacks) or (not any(lacks) and a == b), f"{where}: {a!r} for {b!r}"


def check(what, rows, keys):
    """Every reader finds the rows that the logs give, in any order."""
    for reader, table in [("pandas, CSV", from_csv(what)), ("pandas, Parquet", from_parquet(what)),
                          ("DuckDB, CSV", by_duckdb(what, "csv")), ("DuckDB, Parquet", by_duckdb(what, "parquet"))]:
        assert len(table) == len(rows), f"{what} by {reader}: {len(table)} rows for {len(rows)}"
        for name in NUMBERS & set(table.columns):
            assert pandas.api.types.is_numeric_dtype(table[name]) or table[name].isna().all(), f"{reader}: {name} is {table[name].dtype}"
        if reader.endswith("CSV"):
            table = without_apostrophes(table)
        found = {key_of(row, keys): row for row in table.to_dict("records")}
        assert len(found) == len(rows), f"{what} by {reader}: keys repeat"
        for row in rows:
            seen = found[key_of(row, keys)]
            for name, value in row.items():
                same(seen[name], value, f"{what} by {reader}: {name} of {row}")


def steps():
    rows = []
    for run, rank, events in logs():
        said = {(one["step"], one["key"]): one["value"] for one in events if one["event"] == "reading" and one.get("step")}
        for one in events:
            if one["event"] == "step":
                row = {name: one[name] for name in ["epoch", "step", "time_s", "duration_s", "load_wait_s", "loss", "warm_up"]}
                row |= {"run": run, "rank": rank, "units": one.get("units", one.get("images"))}
                row |= {key: value for (step, key), value in said.items() if step == one["step"]}
                rows.append(row)
    return rows


def evidence():
    return [{"run": run, "rank": rank, **{name: one[name] for name in ["factor", "seen", "in_effect"]}}
            for run, rank, events in logs() for one in events if one["event"] == "evidence"]


def samples():
    rows = []
    for run in sorted((session / "runs").iterdir()):
        for one in lines(run / "samples.jsonl"):
            moment = {"run": run.name, "time_s": one["time_s"]}
            rows.append(moment | {"subject": "host", "gpu_uuid": None, "cpus_busy": one["host"]["cpus_busy"]})
            rows += [moment | {"subject": "gpu", "gpu_uuid": gpu["uuid"], "power_w": gpu["power_w"], "energy_j": gpu["energy_j"]}
                     for gpu in one["gpus"]]
            rows += [moment | {"subject": "rank", "gpu_uuid": None, "rank": rank["rank"], "cpus_busy": rank["cpus_busy"]}
                     for rank in one["ranks"]]
    return rows


def check_runs():
    """The step time of a run is the median over steady steps of its slowest rank."""
    table = duckdb.sql(f"SELECT run, value FROM '{folder}/runs.parquet' WHERE reading = 'step_time_s'").fetchall()
    expected = {}
    for run, rank, events in logs():
        times = [one["duration_s"] for one in events if one["event"] == "step" and not one["warm_up"]]
        if times and sum(times) > expected.get(run, (0, 0))[0]:
            expected[run] = (sum(times), statistics.median(times))
    assert table and len(table) == len(expected), (table, expected)
    for run, value in table:
        assert abs(value - expected[run][1]) <= 1e-15, (run, value, expected[run])
    # What pandas' users do first.
    wide = from_parquet("runs").pivot_table(index="run", columns="reading", values="value")
    assert len(wide) >= len(expected) and "step_time_s" in wide.columns


check("steps", steps(), ["run", "rank", "step"])
check("evidence", evidence(), ["run", "rank", "factor", "seen"])
check("samples", samples(), ["run", "time_s", "subject", "gpu_uuid", "rank"])
check_runs()
epochs = from_parquet("epochs")
assert len(epochs) == len(from_csv("epochs")) == len(by_duckdb("epochs", "csv")) > 0
assert (epochs["epoch"] >= 1).all() and epochs["warm_up"].dtype == "boolean"
print(f"{len(steps())} steps, {len(evidence())} observations, {len(samples())} rows of samples agree")
