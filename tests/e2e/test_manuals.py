"""The manuals that the build makes: clean, whole, and readable on a terminal of 80 columns."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT, choices

PAGES = {"profd": 1, "profd.h": 3, "profd.conf": 5, "profd-daemon": 8}


def needs(program, package):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed (package {package}); ./dev test installs it")


def run(*command, **more):
    return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, **more)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The pages as they are installed, so that each finds those that it refers to."""
    folder = tmp_path_factory.mktemp("man")
    for page, section in PAGES.items():
        (folder / f"man{section}").mkdir()
        shutil.copy(BUILD / "manual" / f"{page}.{section}", folder / f"man{section}")
    return folder


def path(tree, page):
    return tree / f"man{PAGES[page]}" / f"{page}.{PAGES[page]}"


def rendered(tree, page):
    needs("mandoc", "mandoc")
    text = run("mandoc", "-T", "utf8", "-O", "width=80", path(tree, page)).stdout
    return re.sub(".\b", "", text)


def sections(text):
    """{heading: its text with every gap as one blank}; a subsection's heading is "SECTION/Subsection"."""
    found, section, name = {}, "", ""
    for line in text.splitlines():
        if re.match(r"[A-Z][A-Z ]+$", line):
            section = name = line.strip()
        elif re.match(r"   \S", line):
            name = f"{section}/{line.strip()}"
        found[name] = found.get(name, "") + " " + line.strip()
    return {key: re.sub(r"\s+", " ", value) for key, value in found.items()}


@pytest.mark.parametrize("page", PAGES)
def test_mandoc_finds_nothing_to_complain_of(tree, page):
    needs("mandoc", "mandoc")
    said = run("mandoc", "-T", "lint", path(tree, page)).stdout.splitlines()
    # It looks for what a page refers to among the machine's own manuals only.
    ours = "|".join(rf"{re.escape(name)} {section}" for name, section in PAGES.items())
    assert [line for line in said if not re.search(rf"referenced manual not found: Xr ({ours})( \(\d+ times\))?$", line)] == []
    referred = set(re.findall(r"^\.Xr (\S+ \d)", path(tree, page).read_text(), re.M))
    assert referred and referred <= {f"{name} {section}" for name, section in PAGES.items()}


@pytest.mark.parametrize("page", PAGES)
def test_groff_finds_nothing_to_complain_of(tree, page):
    needs("man", "man-db")
    done = run("man", "--warnings=w", "-l", path(tree, page), env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout) > 1500


def test_they_are_found_by_name_and_by_word(tree):
    needs("mandoc", "mandoc")
    run("makewhatis", tree)
    # mandoc's apropos has another name where man-db's has the usual one.
    apropos = next(name for name in ("mapropos", "apropos") if shutil.which(name))
    found = run(apropos, "-M", tree, "profd").stdout
    for page, section in PAGES.items():
        assert re.search(rf"^{re.escape(page)}\({section}\)", found, re.M), found


@pytest.mark.parametrize("page", PAGES)
def test_they_fit_80_columns_and_have_their_parts(tree, page):
    text = rendered(tree, page)
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert wide == []
    headings = re.findall(r"^[A-Z][A-Z ]+$", text, re.M)
    for wanted in ("NAME", "DESCRIPTION", "EXAMPLES", "SEE ALSO"):
        assert wanted in headings
    # Nothing of the markup, and no text of the templates, is left.
    assert not re.search(r"@[a-z-]+@|^\.[A-Z]|\\[-e&f]", text, re.M)


def test_profd_1_has_every_verb_and_option(tree):
    client = BUILD / "bin" / "profd"
    page = sections(rendered(tree, "profd"))
    listed = run(client, "help").stdout
    verbs = re.findall(r"^  ([a-z]+) {2,}(.+)$", listed.split("Verbs:")[1].split("Topics:")[0], re.M)
    assert len(verbs) >= 14
    for verb, summary in verbs:
        own = next((text for name, text in page.items() if name.startswith(f"DESCRIPTION/profd {verb}: ")), None)
        assert own and summary in own.replace("’", "'"), verb
        # With a trailing blank or bracket, so that --step is not found in --steps.
        for letter, name in re.findall(r"^  (-\w, |    )--([a-z-]+)", run(client, verb, "--help").stdout, re.M):
            wanted = f"{letter.strip()} --{name}".strip()
            assert re.search(re.escape(wanted) + r"( |\[=|$)", own), (verb, name)


def test_profd_1_has_topics_exit_codes_and_errors(tree):
    client = BUILD / "bin" / "profd"
    page = sections(rendered(tree, "profd"))
    for line in re.findall(r"^(\d+) {2,}(.+)$", run(client, "help", "exit-codes").stdout, re.M):
        assert re.sub("`(.*?)`", "‘\\1’", " ".join(line)) in page["EXIT STATUS"]
    for name in re.findall(r"^([A-Z_]+)[ ,]", run(client, "help", "environment").stdout, re.M):
        assert name in page["ENVIRONMENT"]
    whole = " ".join(page.values())
    schemas = re.findall(r"^## (profd\.[a-z_-]+/\d+)", run(client, "help", "json").stdout, re.M)
    assert len(schemas) >= 12
    for schema in schemas:
        assert schema in whole
    for verb, option in (("show", "by"), ("export", "format")):
        for word in choices(verb, option):
            assert re.search(rf" {word} ", page[next(name for name in page if name.startswith(f"DESCRIPTION/profd {verb}: "))]), word
    for word in re.findall(r'^ERROR\(\d+, \w+, "(\w+)"', (ROOT / "proto/errors.def").read_text(), re.M):
        assert word in page["DIAGNOSTICS"]


def test_profd_daemon_8_has_every_option(tree):
    page = sections(rendered(tree, "profd-daemon"))
    options = re.findall(r"^  (--[a-z-]+)", run(BUILD / "bin" / "profd-daemon", "--help").stdout, re.M)
    assert len(options) >= 7
    for option in options:
        assert option in page["DESCRIPTION"] and f"[{option}" in page["SYNOPSIS"]


def test_profd_conf_5_has_every_key(tree):
    page = " ".join(sections(rendered(tree, "profd.conf")).values())
    keys = re.findall(r"^#? ?([a-z_]+) = ", run(BUILD / "bin" / "profd-daemon", "--print-config").stdout, re.M)
    assert len(keys) >= 10
    for key in keys:
        assert f"{key} = " in page, key


def test_profd_h_3_has_every_function(tree):
    page = sections(rendered(tree, "profd.h"))
    functions = re.findall(r"\b(profd_\w+)\([^)]*\);", re.sub(r"/\*.*?\*/", "", (ROOT / "agent/profd.h").read_text(), flags=re.S))
    assert len(functions) >= 5
    for function in functions:
        assert f"{function}(" in page["SYNOPSIS"] and f"{function}()" in page["DESCRIPTION"]


def test_documents_say_what_the_tables_say():
    done = run("python3", ROOT / "docs/manual/refresh.py", "--build", BUILD, "--check")
    assert (done.returncode, done.stdout) == (0, ""), "python3 docs/manual/refresh.py --build build puts them right"
