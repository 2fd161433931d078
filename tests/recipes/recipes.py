"""What the recipes of CONTRIBUTING.md add, and how many places each may need. test_recipes.py follows them."""
import collections

# A recipe's new files lie in new/NAME; `rows` go into files that are there. `word` stands where the page has a word in capitals.
Recipe = collections.namedtuple("Recipe", "name headings rows word", defaults=("dummy",))
# Text that is put before or behind the first match of a pattern in a file.
Row = collections.namedtuple("Row", "file before after text", defaults=(None, None, ""))

# How many places each may need. It never goes up.
MOST = {
    "key": 1,
    "verb": 2,
    "asking": 3,
    "view": 2,
    "format": 2,
    "collector": 2,
    "event": 2,
}

RECIPES = [
    Recipe("key", ["To add a configuration key"], [
        Row("daemon/core/config.def", after=r"^CONFIG_NUMBER\(store_captures,.*\n",
            text='CONFIG_NUMBER(dummy_key, "7", 0, 9, true, "does nothing, as a test of the recipes")\n'),
    ]),
    Recipe("verb", ["To add a verb"], [
        Row("client/verbs/verbs.def", before=r"^VERB\(version,",
            text='VERB(dummy, "does nothing, as a test", "", 0, 0, 0,\n\t"Prints a line.",\n\tNULL)\nEND_VERB(dummy)\n\n'),
    ]),
    Recipe("asking", ["To add a verb", "To add an op of the daemon"], [
        Row("client/verbs/verbs.def", before=r"^VERB\(run,",
            text='VERB(asking, "asks the daemon, as a test", "", 0, 0, 0,\n\t"Prints its answer.",\n\tNULL)\nEND_VERB(asking)\n\n'),
    ], word="asking"),
    Recipe("view", ["To add a view"], [
        Row("client/report/views.def", before=r"^VIEW\(threads,",
            text='VIEW(dtypes, "dtypes", "Types", FILLS_SHAPES, 0, 0, CUT_STEP,\n\t"operators by the types of their inputs, as a test",\n'
                 '\t"name, input_types, calls, cpu_ns")\n'),
    ], word="dtypes"),
    Recipe("format", ["To add an export format"], [
        Row("client/export/formats.def", before=r"^#undef FORMAT",
            text='FORMAT("dummy", dummy_write, ".dummy", "{name}.dummy", false, 0,\n\t"the number of steps, as a test")\n'),
    ]),
    Recipe("collector", ["To add a collector"], [
        Row("proto/collectors.def", before=r"\n#undef COLLECTOR$",
            text='COLLECTOR(13, DUMMY, "dummy", DUMMY, OPS(dummy), ALWAYS, "", "", 0, "nothing, as a test")\n'),
    ]),
    Recipe("event", ["To add an event kind"], [
        Row("proto/events.def", before=r"^RESERVED\(",
            text='EVENT(40, DUMMY, dummy, "dummies", 24, HOST, NONE, "nothing, as a test")\n'
                 'FIELD(DUMMY, dummy, 8, uint64_t, time, TIME, "time", "")\n'
                 'FIELD(DUMMY, dummy, 16, double, value, REAL, "value", "")\n'
                 'END_EVENT(DUMMY, dummy, 24)\n'),
        Row("agent/dummy/collector.c", before=r"^\tsink_leave\(sink\);",
            text="\tstruct event_dummy event = {.head = {sizeof event, EVENT_DUMMY, 0, 0}, .time = sink_record_start(), .value = 2.5};\n"
                 "\tsink_write(sink, &event);\n"),
    ]),
]
