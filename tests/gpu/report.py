"""report.py - what suite.py found, for people; and the verdict."""
import collections
import statistics


def counts(tests):
    found = collections.Counter(test["outcome"] for test in tests)
    return {word: found[word] for word in ("passed", "failed", "error", "skipped", "not reached") if found[word]}


def all_tests(said):
    return [test for group in said["tests"].values() for test in group["tests"]]


def verdict(said):
    """passed, failed, or incomplete: something was not reached."""
    found = counts(all_tests(said))
    broken = [part for part, told in said["measured"].items() if "error" in told or told.get("wrong")]
    if said["problems"] or broken or found.get("failed") or found.get("error") or not found.get("passed"):
        return "failed"
    return "incomplete" if said["not_reached"] or found.get("not reached") else "passed"


def ns(value):
    if value is None:
        return "not recorded"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.2f} {unit}"
    return f"{value:.0f} ns"


def mb(value):
    return "not known" if value is None else f"{value / 1e6:.1f} MB"


def table(rows):
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
            for row in rows]


def launches(told):
    names = {"none": "without the agent", "idle": "agent, idle", "recording": "agent, recording", "bare_kernels": "bare CUPTI, kernels alone",
             "bare": "bare CUPTI, the agent's kinds"}
    for threads in ("threads_1", "threads_4"):
        ways = told[threads]
        rows = [["a launch, " + threads.replace("_", " "), "median", "least", "more than without", "lost"]]
        for way, name in names.items():
            row = ways[way]
            rows.append([name, ns(row["median_ns"]), ns(row["least_ns"]), ns(row["median_ns"] - ways["none"]["median_ns"]), row["lost"]])
        yield from table(rows)
        yield ""


def switching(told):
    first = told["sessions"][0]
    yield f"  CUPTI {first['version']}; kinds are switched on and off while a thread launches without pause"
    rows = [["kinds", "launching thread", "sessions", "without kernels", "changes", "kernels of launches", "on, mean", "most", "off, mean", "most"]]
    names = {"none": "goes on", "on": "stands while on", "off": "stands while off", "both": "stands meanwhile"}
    for row in told["sessions"]:
        rows.append([row["kinds"], names[row["hold"]], row["sessions"], row["without_kernels"], row["changes"],
                     f"{row['kernels']} of {row['launches']}"] + [
                         ns(row[when] * 1e3) for when in ("on_us_mean", "on_us_most", "off_us_mean", "off_us_most")])
    yield from table(rows)
    yield ""
    rows = [["a launch, kinds", "before", "while recorded", "after", "after cuptiFinalize", "what stays until then"]]
    for row in told["costs"]:
        rows.append([row["kinds"]] + [ns(row["ns_" + when]) for when in ("before", "during", "after", "finalized")] +
                    [ns(row["ns_after"] - row["ns_before"])])
    yield from table(rows)


def steps(told):
    for model, row in ((model, row) for model, row in told.items() if model != "seconds"):
        yield f"  {model}: {row['kernels_each']:.0f} kernels a capture of 10 steps, {row['lost']} lost"
        step, memory = row["step_ns"], row["memory"]
        yield from table([["  step", *step], ["  median", *(ns(value) for value in step.values())]])
        yield f"    enabling: first {ns(row['enable_ns']['first'])}, later {ns(row['enable_ns']['later'])}"
        yield f"    draining: first {ns(row['drain_ns']['first'])}, later {ns(row['drain_ns']['later'])}"
        yield f"    clock error stated {ns(row['clock_error_ns'])}; operations that seem to begin before their call: {row['early']}"
        yield "    memory of the device: " + ", ".join(f"{when} {mb(m['device_bytes'])}" for when, m in memory.items())
        yield "    memory of the process: " + ", ".join(f"{when} {mb(m['host_bytes'])}" for when, m in memory.items())


def cycles(told):
    columns = {name: [row[i] for row in told["rows"]] for i, name in enumerate(told["columns"])}
    half = len(told["rows"]) // 2
    yield f"  {len(told['rows'])} captures, lost in all {sum(columns['lost'])}, wrong results of the job {told['wrong']}"
    for name in ("enable_ns", "drain_ns", "clock_error_ns", "step_before_ns", "step_during_ns", "trigger_ns"):
        values = [value for value in columns[name] if value is not None]
        if values:
            yield (f"    {name[:-3]:12} first {ns(values[0])}, median of the first half {ns(statistics.median(values[:half] or values))}, "
                   f"of the second {ns(statistics.median(values[half:] or values))}, most {ns(max(values))}")
    for when, (host, device) in told["memory_host_and_device"].items():
        yield f"    memory {when}: process {mb(host)}, device (all processes) {mb(device)}"


def graphs(told):
    rows = [["a step with a graph of 200 kernels", "before", "during", "lost"]]
    for way in ("nodes", "whole"):
        rows.append([f"recorded by {way}" if way == "nodes" else "recorded as a whole",
                     ns(statistics.median(run["before_ns"] for run in told[way])),
                     ns(statistics.median(run["during_ns"] for run in told[way])), sum(run["lost"] for run in told[way])])
    yield from table(rows)


def sizes(told):
    yield f"  cuptiGetVersion {told['version']}, taken for CUDA {told['taken_for']}; {told['library']}"
    for name, row in told["records"].items():
        seen = "only one" if not row["bytes"][1] else str(row["bytes"][0]) if row["bytes"][0] == row["bytes"][1] else str(row["bytes"])
        yield f"    {name:20} {row['count']:8} records, bytes {seen}, table {row['table']}"
    yield from (f"  WRONG: {line}" for line in told["wrong"])


def answers(told):
    for word, said in told["answers"].items():
        if "missing" in said:
            yield f"    {word}: this library has no {said['missing']}"
        else:
            more = ", ".join(f"{key} {value}" for key, value in said.items() if key not in ("result", "ns"))
            yield f"    {word}: {said['result']} in {ns(said['ns'])}{', ' + more if more else ''}"


def machine(told):
    for key in ("nvidia_smi", "torch", "system", "glibc", "processors", "library_path"):
        if told.get(key):
            yield f"    {key}: {told[key]}"
    session = told.get("session") or {}
    if session:
        yield (f"    a capture: CUPTI {session['cupti_version']}, driver {session['driver_version']}, {session['kinds']} kinds, "
               f"clock error {ns(session['clock_error'])}")


def traces(told):
    for model, row in told["models"].items():
        yield f"    {model}: {', '.join(row['files'])}"
    yield from (f"  WRONG: {line}" for line in told["wrong"])


SECTIONS = {"machine": machine, "sizes": sizes, "launches": launches, "switching": switching, "steps": steps, "traces": traces,
            "cycles": cycles, "answers": answers, "graphs": graphs}


def text(said):
    lines = [f"profd on {said['gpu']}, driver {said['driver']}, {said['at']}, {said['seconds']} s: {said['verdict'].upper()}"]
    if said["simulated"]:
        lines.append("SIMULATED: this GPU is tests/sim; its times are made up and say nothing of a real one")
    if said.get("rehearsed"):
        lines.append(said["rehearsed"].upper())
    lines += [f"problem: {problem}" for problem in said["problems"]]
    lines += ["", "tests"]
    for name, group in said["tests"].items():
        lines.append(f"  {name}: " + ", ".join(f"{n} {word}" for word, n in counts(group["tests"]).items()))
        reasons = collections.Counter(test["text"] for test in group["tests"] if test["outcome"] == "skipped")
        lines += [f"    skipped {n}: {reason}" for reason, n in reasons.items()]
        for test in group["tests"]:
            if test["outcome"] in ("failed", "error", "not reached"):
                last = [line for line in test.get("text", "").splitlines() if line.startswith("E ")][:3]
                lines += [f"    {test['outcome'].upper()} {test['test']}"] + [f"      {line}" for line in last]
    for part, told in said["measured"].items():
        lines += ["", f"{part} ({told['seconds']} s)"]
        if "error" in told:
            lines.append(f"  FAILED: {told['error']}")
        elif "not_here" in told:
            lines.append(f"  not measured: {told['not_here']}")
        else:
            lines += SECTIONS[part](told)
    if said["not_reached"]:
        lines += ["", "not reached before the deadline: " + ", ".join(said["not_reached"])]
    return "\n".join(lines)
