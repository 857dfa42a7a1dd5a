//! Figure files from the command line: changed, drawn again, all of a folder, set in LaTeX.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

mod seeded;

use seeded::{multicard_at_home as run, printed};

/// A home with a session.
fn session() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let archive = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sessions/gpu.zip");
    let imported = run(home.path(), &["session", "import", archive, "--session", "gpu"]);
    assert!(imported.status.success(), "{}", printed(&imported));
    home
}

fn drawn(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, &[&["figure"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
    printed(&output)
}

#[test]
fn a_folder_of_figures_is_drawn_again_with_all_that_was_changed_in_each() {
    let home = session();
    let home = home.path();
    fs::create_dir(home.join("figures")).unwrap();
    drawn(home, &["gpu", "--out", "figures/times.svg", "--label", "bf16=BF16 (AMP)", "--height", "60mm"]);
    drawn(home, &["gpu", "--preset", "effects", "--out", "figures/effects.png", "--dpi", "150", "--width", "lncs"]);
    fs::write(home.join("figures/foreign.svg"), "<svg/>").unwrap();
    let before = fs::read(home.join("figures/times.svg")).unwrap();
    let again = drawn(home, &["--all", "figures"]);
    assert!(again.contains("0 figures drawn anew, 2 as they were, 0 not drawn"), "{again}");
    // A picture that is of an older drawing becomes one of now.
    let text = String::from_utf8(before.clone()).unwrap();
    fs::write(home.join("figures/times.svg"), text.replacen("</svg>", "<g/></svg>", 1)).unwrap();
    let again = drawn(home, &["--all", "figures"]);
    assert!(again.contains("1 figure drawn anew, 1 as they were"), "{again}");
    assert_eq!(fs::read(home.join("figures/times.svg")).unwrap(), before);

    // One with changes of its own, from the file alone.
    drawn(home, &["figures/times.svg", "--out", "figures/more.svg", "--title", "Another"]);
    let more = fs::read_to_string(home.join("figures/more.svg")).unwrap();
    assert!(more.contains(">Another<") && more.contains("BF16 (AMP)"));
}

#[test]
fn the_folder_of_a_figure_is_made_as_that_of_a_report_is() {
    let home = session();
    drawn(home.path(), &["gpu", "--out", "figs/new/times.svg"]);
    assert!(home.path().join("figs/new/times.svg").is_file());
}

#[test]
fn figures_of_sessions_that_are_gone_and_with_unknown_entries_are_named_and_stay() {
    let home = session();
    let home = home.path();
    fs::create_dir(home.join("figures")).unwrap();
    drawn(home, &["gpu", "--out", "figures/times.svg", "--title", "Kept"]);
    let text = fs::read_to_string(home.join("figures/times.svg")).unwrap();
    let edited = text.replace("&quot;title&quot;:&quot;Kept&quot;", "&quot;titel&quot;:&quot;Kept&quot;");
    fs::write(home.join("figures/edited.svg"), &edited).unwrap();
    let output = run(home, &["figure", "--all", "figures"]);
    assert!(!output.status.success());
    assert!(
        printed(&output).contains("study.overrides.titel: unknown key; did you mean \"title\"?"),
        "{}",
        printed(&output)
    );
    assert_eq!(fs::read_to_string(home.join("figures/edited.svg")).unwrap(), edited);
    drawn(home, &["figures/edited.svg", "--out", "rest.svg"]);

    fs::rename(home.join("gpu"), home.join("elsewhere")).unwrap();
    let output = run(home, &["figure", "--all", "figures"]);
    assert!(
        printed(&output).contains("it shows session gpu, which is neither beside the file nor"),
        "{}",
        printed(&output)
    );
    drawn(home, &["figures/times.svg", "--of", "elsewhere", "--out", "rest.svg"]);
}

#[test]
fn a_session_that_a_figures_file_names_many_times_counts_once() {
    let home = session();
    let home = home.path();
    drawn(home, &["gpu", "--out", "times.svg"]);
    let text = fs::read_to_string(home.join("times.svg")).unwrap();
    let begin = "&quot;sessions&quot;:[";
    let start = text.find(begin).unwrap() + begin.len();
    let mut depth = 1;
    let is_end = |sign: char| {
        depth += i32::from(sign == '[') - i32::from(sign == ']');
        depth == 0
    };
    let end = start + text[start..].find(is_end).unwrap();
    let repeated = format!("{}{}{}", &text[..end], format!(",{}", &text[start..end]).repeat(39), &text[end..]);
    fs::write(home.join("repeated.svg"), repeated).unwrap();
    let output = run(home, &["figure", "repeated.svg", "--out", "again.svg"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains("repeated.svg: it names session gpu more than once"), "{}", printed(&output));
    assert_eq!(fs::read_to_string(home.join("again.svg")).unwrap(), text);
}

#[test]
fn a_figure_says_on_stderr_which_files_it_wrote() {
    let home = session();
    let home = home.path();
    let written = |arguments: &[&str]| {
        let output = run(home, &[&["figure"], arguments].concat());
        assert!(output.status.success() && output.stdout.is_empty(), "{arguments:?}: {}", printed(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    let alone = written(&["gpu", "--out", "times.svg"]);
    assert!(alone.lines().any(|line| line == "figure in times.svg"), "{alone}");
    let again = written(&["times.svg", "--out", "again.pdf", "--tex", "again.tex"]);
    assert!(again.lines().any(|line| line == "figure in again.pdf, its LaTeX in again.tex"), "{again}");
}

/// Where LaTeX is not installed, the text alone is looked at.
#[test]
fn a_figure_is_set_in_latex_with_a_caption_that_says_n_and_intervals() {
    let home = session();
    let home = home.path();
    drawn(home, &["gpu", "--out", "times.pdf", "--tex", "times.tex", "--caption", "off", "--width", "ieee-column"]);
    let tex = fs::read_to_string(home.join("times.tex")).unwrap();
    for part in
        ["\\includegraphics{times.pdf}", "medians of 2 repeats", "range of repeats (n = 2)", "\\label{fig:times}"]
    {
        assert!(tex.contains(part), "{part} in {tex}");
    }
    let table = run(home, &["table", "gpu", "--format", "latex"]);
    fs::write(home.join("table.tex"), table.stdout).unwrap();
    let document = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\\usepackage{lmodern}\n\
                    \\usepackage{booktabs, siunitx, graphicx}\n\
                    \\begin{document}\n\\input{times}\n\\tiny\\input{table}\n\\end{document}\n";
    fs::write(home.join("paper.tex"), document).unwrap();
    let mut compiler = Command::new("pdflatex");
    compiler.args(["-interaction=nonstopmode", "-halt-on-error", "paper.tex"]).current_dir(home);
    if let Ok(compiled) = compiler.output() {
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    }
}

/// A second session beside `gpu`, of other cells.
fn with_another(home: &Path) {
    use std::io::Read;
    let packed = fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sessions/repeats.zip.gz")).unwrap();
    let mut archive = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut archive).unwrap();
    fs::write(home.join("repeats.zip"), archive).unwrap();
    let imported = run(home, &["session", "import", "repeats.zip", "--session", "deep/repeats"]);
    assert!(imported.status.success(), "{}", printed(&imported));
}

const COMPOSED: &str = "version = 1\ncolumns = 2\nwidth = \"page\"\nshare = [\"legend\", \"y\"]\n\
                        [[panel]]\nsession = \"gpu\"\nmeasure = \"step_time_s\"\ntitle = \"On a GPU\"\n\
                        [[panel]]\nsession = \"deep/repeats\"\nmeasure = \"step_time_s\"\ntitle = \"On CPUs\"\n";

#[test]
fn panels_of_two_sessions_are_one_figure_that_is_drawn_again_from_its_file() {
    let home = session();
    let home = home.path();
    with_another(home);
    fs::write(home.join("both.toml"), COMPOSED).unwrap();
    fs::create_dir(home.join("figures")).unwrap();
    for file in ["figures/both.svg", "figures/both.pdf", "figures/both.png"] {
        drawn(home, &["both.toml", "--out", file, "--tex", "both.tex"]);
    }
    let svg = fs::read_to_string(home.join("figures/both.svg")).unwrap();
    assert!(svg.contains(">On a GPU<") && svg.contains(">On CPUs<") && svg.contains(">(b) <"));
    assert!(!svg.contains(home.to_str().unwrap()), "a figure is published: no folder stands in it");
    let tex = fs::read_to_string(home.join("both.tex")).unwrap();
    assert!(tex.contains("(a) On a GPU. Values are medians of 2") && tex.contains("\\label{fig:both}"), "{tex}");
    // The second session lies elsewhere: it is moved to where figures look.
    fs::rename(home.join("deep/repeats"), home.join("repeats")).unwrap();
    let again = drawn(home, &["--all", "figures"]);
    assert!(again.contains("0 figures drawn anew, 3 as they were, 0 not drawn"), "{again}");

    drawn(home, &["figures/both.svg", "--out", "grey.svg", "--palette", "grey", "--title", "Both"]);
    assert!(fs::read_to_string(home.join("grey.svg")).unwrap().contains(">Both<"));
    let refused = run(home, &["figure", "figures/both.svg", "--out", "no.svg", "--y-limits", "0,1"]);
    assert!(printed(&refused).contains("for a composed figure, only --title"), "{}", printed(&refused));
    let described = drawn(home, &["figures/both.pdf"]);
    assert!(described.contains("2 panels over") && described.contains("of session gpu"), "{described}");

    fs::rename(home.join("repeats"), home.join("gone")).unwrap();
    let output = run(home, &["figure", "--all", "figures"]);
    assert!(
        printed(&output).contains("panel 2: it shows session repeats, which is neither beside the file"),
        "{}",
        printed(&output)
    );
    assert_eq!(fs::read_to_string(home.join("figures/both.svg")).unwrap(), svg);

    // Drawn of another session, its file names that one from then on.
    drawn(home, &["figures/both.svg", "--of", "gpu", "--out", "of-one.svg"]);
    drawn(home, &["of-one.svg", "--out", "again.svg"]);
    let [one, again] = ["of-one.svg", "again.svg"].map(|file| fs::read_to_string(home.join(file)).unwrap());
    assert_eq!(one, again);
}

#[test]
fn panels_that_cannot_be_drawn_are_named_with_their_lines_and_the_rest_is_drawn() {
    let home = session();
    let home = home.path();
    let text = "version = 1\ncolums = 3\n[[panel]]\nsession = \"gpu\"\n[[panel]]\nsession = \"gone\"\n\
                [[panel]]\nsession = \"gpu\"\nfilter = \"fp16 )\"\n[[panel]]\nsession = \"gpu\"\nstudy = \"metrics\"\n\
                [[panel]]\nsession = \"gpu\"\nform = \"clouds\"\n";
    fs::write(home.join("f.toml"), text).unwrap();
    let output = run(home, &["figure", "f.toml", "--out", "f.svg"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    for part in [
        "f.toml:2: colums: unknown key; did you mean \"columns\"?",
        "f.toml:5: panel[2]: it is not drawn: ",
        "f.toml:7: panel[3]: it is not drawn: the filter, character ",
        "f.toml:10: panel[4]: it is not drawn: no cell has the values that it shows",
        "f.toml:15: panel[5].form: unknown variant `clouds`",
        "f.svg is drawn without the keys and panels of f.toml that are named above",
    ] {
        assert!(printed(&output).contains(part), "{part} in {}", printed(&output));
    }
    let svg = fs::read_to_string(home.join("f.svg")).unwrap();
    assert!(svg.contains("(e) ") && svg.contains(">the filter,"));
    // Its own file is enough to draw it again, with the same text in these panels.
    let output = run(home, &["figure", "f.svg", "--out", "again.svg"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    for part in [
        "f.svg: panel 2: it is not drawn: ",
        "f.svg: panel 3: it is not drawn: the filter, character ",
        "f.svg: panel 4: it is not drawn: no cell has the values that it shows",
        "again.svg is drawn without the keys and panels of f.svg that are named above (3)",
    ] {
        assert!(printed(&output).contains(part), "{part} in {}", printed(&output));
    }
    assert_eq!(fs::read_to_string(home.join("again.svg")).unwrap(), svg);
    // Files of earlier versions do not record why a panel was not drawn.
    let (head, rest) = svg.split_once(",&quot;blank&quot;:&quot;").unwrap();
    let (_, tail) = rest.split_once("&quot;}").unwrap();
    fs::write(home.join("earlier.svg"), format!("{head}}}{tail}")).unwrap();
    let output = run(home, &["figure", "earlier.svg", "--out", "again.svg"]);
    let expected = "panel 2: it is not drawn: the file does not contain the date of session gone";
    assert!(printed(&output).contains(expected) && output.status.code() == Some(2), "{}", printed(&output));
    for (text, part) in [
        ("version = 9\n[[panel]]\nsession = \"gpu\"\n", "f.toml:1: version: 9 is newer than this multicard's 1"),
        ("version = 1\n", "panel: missing"),
        ("[[panel]]\nsession = \"gone\"\n", "no panel has a picture"),
    ] {
        fs::write(home.join("f.toml"), text).unwrap();
        let output = run(home, &["figure", "f.toml", "--out", "none.svg"]);
        assert!(printed(&output).contains(part) && output.status.code() == Some(2), "{part} in {}", printed(&output));
    }
    assert!(!home.join("none.svg").exists());
}
