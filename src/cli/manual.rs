//! `multicard manual`: all topics of `multicard help` as one page of HTML, which needs no network: tutorials, answers, reference, method.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::help::{Part, TOPICS, workload_page};
use super::replace::{self, Kind};
use super::{OK, Outcome, say};
use crate::analysis::Measures;
use crate::figure::capitalised;
use crate::foreign::{self, cache_folder};
use crate::plan::workloads;
use crate::text_table::{TextTable, html_lines, html_text};

#[derive(Args)]
pub(super) struct Arguments {
    /// Write the page to this file and do not open it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(file) = &arguments.out {
        replace::check(file, Kind::Page)?;
        write(file)?;
        return Ok(OK);
    }
    let folder = cache_folder()?.join("multicard");
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let file = folder.join("manual.html");
    write(&file)?;
    match open::that_detached(&file) {
        Ok(()) => say(format!("the manual: {}", file.display())),
        Err(error) => {
            say(format!("the manual was written to {}, but no program could open it here: {error}", file.display()));
        }
    }
    Ok(OK)
}

fn write(file: &Path) -> Result<(), String> {
    foreign::write(file, page().as_bytes()).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// A chapter: its name in links, its title, and its text as HTML.
struct Chapter {
    part: Part,
    link: String,
    title: String,
    body: String,
}

/// The whole manual.
fn page() -> String {
    let chapters = chapters();
    let mut contents = String::new();
    let mut text = String::new();
    for part in Part::ALL {
        let _infallible = write!(contents, "<h2>{}</h2>\n<ul>\n", part.name());
        for Chapter { link, title, body, .. } in chapters.iter().filter(|chapter| chapter.part == part) {
            let title = html_text(title);
            let _infallible = writeln!(contents, "<li><a href=\"#{link}\">{title}</a></li>");
            let _infallible = write!(text, "<section id=\"{link}\">\n<h1>{title}</h1>\n{body}</section>\n");
        }
        contents += "</ul>\n";
    }
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>multicard {version}: the manual</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<nav>\n<p><b>multicard {version}</b></p>\n\
         <input type=\"search\" id=\"search\" placeholder=\"Search\" aria-label=\"Search the manual\">\n\
         <p id=\"found\" role=\"status\"></p>\n{contents}</nav>\n<main>\n{text}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn chapters() -> Vec<Chapter> {
    let mut chapters: Vec<Chapter> =
        TOPICS.iter().map(|topic| chapter(topic.part, (topic.name, topic.about), &(topic.text)())).collect();
    chapters.extend(workloads().iter().filter_map(|spec| {
        Some(chapter(Part::Reference, (&format!("workload-{}", spec.key), &spec.name), &workload_page(spec, &[]).ok()?))
    }));
    let reference = |link: &str, title: &str, body| {
        let (link, title) = (link.to_owned(), title.to_owned());
        Chapter { part: Part::Reference, link, title, body }
    };
    chapters.push(reference("commands", "Commands", commands()));
    chapters.push(reference("measures", "Measures", measures()));
    chapters
}

/// A chapter made from a Markdown page, whose first heading is its title; `about` is the title of a page that begins without a heading.
fn chapter(part: Part, (link, about): (&str, &str), markdown: &str) -> Chapter {
    let markdown = markdown.trim_start();
    let (title, text) = match markdown.strip_prefix("# ").and_then(|rest| rest.split_once('\n')) {
        Some((title, text)) => (title.replace('`', ""), text),
        None => (capitalised(about), markdown),
    };
    Chapter { part, link: link.to_owned(), title, body: html_of(text) }
}

/// The part of a page below its title as HTML: headings are one level lower, and links into the source become text.
fn html_of(markdown: &str) -> String {
    let lower = |level| match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        _ => HeadingLevel::H4,
    };
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Heading { level, id, classes, attrs }) => {
            Some(Event::Start(Tag::Heading { level: lower(level), id, classes, attrs }))
        }
        Event::End(TagEnd::Heading(level)) => Some(Event::End(TagEnd::Heading(lower(level)))),
        Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link) => None,
        // What a page says between angle brackets is text.
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        event => Some(event),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    text
}

/// The help of every subcommand.
fn commands() -> String {
    fn add(command: &mut clap::Command, path: &str, text: &mut String) {
        let help = command.render_long_help().to_string();
        let _infallible = write!(text, "<h3>{}</h3>\n<pre>{}</pre>\n", html_text(path), html_lines(&help));
        for inner in command.get_subcommands_mut().filter(|inner| !inner.is_hide_set()) {
            let path = format!("{path} {}", inner.get_name());
            add(inner, &path, text);
        }
    }
    let mut command = super::description();
    command.build();
    let mut text = String::new();
    add(&mut command, "multicard", &mut text);
    text
}

/// Every measure that tables, figures and filters know.
fn measures() -> String {
    let mut table = TextTable::new("lll", ["Key", "Name", "Unit in files"]);
    for measure in Measures::built_in().iter() {
        table.row([measure.key.to_string().into(), measure.name.clone().into(), measure.unit.clone().into()]);
    }
    table.html()
}

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --muted: #777; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1rem; box-sizing: border-box; border-right: 1px solid var(--line); }
nav h2 { font-size: 0.8rem; color: var(--muted); margin: 1.2rem 0 0.2rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: 0.1rem 0; text-decoration: none; }
nav input { width: 100%; box-sizing: border-box; font: inherit; padding: 0.3rem; }
#found { color: var(--muted); font-size: 0.85rem; min-height: 1.3em; margin: 0.3rem 0; }
main { padding: 1rem 2.5rem; max-width: 52rem; }
section { border-bottom: 1px solid var(--line); padding-bottom: 2rem; }
h1 { font-size: 1.7rem; margin-top: 2rem; } h2 { font-size: 1.25rem; margin-top: 2rem; } h3 { font-size: 1.05rem; }
pre, code { font: 0.875em/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.7rem; border: 1px solid var(--line); border-radius: 4px; }
table { border-collapse: collapse; font-size: 0.9rem; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid var(--line); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
[hidden] { display: none; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } main { padding: 1rem; } }
@media print { nav { display: none; } body { display: block; } section { break-before: page; border: 0; } }
";

/// Searches the manual: shows only the chapters and sections that contain all the words. A section is a heading with the text that follows
/// it.
const SCRIPT: &str = "\
const field = document.getElementById('search'), found = document.getElementById('found');
const parts = [];
for (const section of document.querySelectorAll('main section')) {
  let part = [];
  for (const element of section.children) {
    if (/^H[1-4]$/.test(element.tagName) && part.length) { parts.push({ section, part }); part = []; }
    part.push(element);
  }
  parts.push({ section, part });
}
for (const entry of parts) entry.text = entry.part.map(element => element.textContent).join(' ').toLowerCase();
field.addEventListener('input', () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(word => word);
  let count = 0;
  for (const section of document.querySelectorAll('main section')) section.hidden = words.length > 0;
  for (const { section, part, text } of parts) {
    const shows = words.every(word => text.includes(word));
    for (const element of part) element.hidden = !shows;
    if (shows) { section.hidden = false; count += 1; section.firstElementChild.hidden = false; }
  }
  found.textContent = words.length ? (count === 1 ? '1 part' : count + ' parts') : '';
});
";

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use clap::error::ErrorKind;

    use super::*;
    use crate::plan::Plan;

    #[test]
    fn the_manual_has_every_topic_command_factor_and_measure_and_names_no_other_file() {
        let page = page();
        for topic in TOPICS {
            assert!(page.contains(&format!("<section id=\"{}\">", topic.name)), "{}", topic.name);
        }
        for subcommand in super::super::description().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(
                page.contains(&format!("<h3>multicard {}</h3>", subcommand.get_name())),
                "{}",
                subcommand.get_name()
            );
        }
        for spec in workloads() {
            let missing: Vec<_> =
                spec.factors.iter().filter(|factor| !page.contains(&format!("<h3>{}</h3>", factor.key))).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", spec.key);
        }
        assert!(page.contains("<td>training_time_s</td>") && page.contains("<h1>The session's folder</h1>"));
        for part in ["src=\"http", "href=\"http", "<link", "@import"] {
            assert!(!page.contains(part), "{part}: it is one file");
        }
    }

    #[test]
    fn markup_of_a_page_is_text_and_headings_are_below_the_chapters_title() {
        let html =
            html_of("# A\n\nset `<run>` to <b>x</b>, see [the code](crate::a)\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n");
        assert!(html.contains("<h2>A</h2>") && html.contains("<code>&lt;run&gt;</code>"), "{html}");
        assert!(html.contains("&lt;b&gt;x&lt;/b&gt;") && html.contains("see the code"), "{html}");
        assert!(html.contains("<td style=\"text-align: right\">2</td>"), "{html}");
    }

    /// The README, and the texts of the manual.
    fn texts() -> Vec<String> {
        let readme = include_str!("../../README.md").to_owned();
        TOPICS.iter().map(|topic| (topic.text)()).chain([readme]).collect()
    }

    /// The blocks of code of a text, each after its first line, which names the language.
    fn blocks(text: &str) -> impl Iterator<Item = &str> {
        text.split("```").skip(1).step_by(2).filter_map(|block| Some(block.split_once('\n')?.1))
    }

    /// The command lines in the blocks of code of a text.
    fn command_lines(text: &str) -> Vec<String> {
        let lines = blocks(text).flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default().trim());
        lines.filter(|line| line.starts_with("multicard")).map(str::to_owned).collect()
    }

    /// The words of a command line; what stands in quotation marks is one word.
    fn words(line: &str) -> Vec<&str> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(index, part)| if index % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
            .collect()
    }

    /// The commands that sentences of a text name.
    fn named_commands(text: &str) -> Vec<String> {
        let sentences: String = text.split("```").step_by(2).collect();
        let named = sentences.split("`multicard ").skip(1).filter_map(|rest| rest.split('`').next());
        named.map(|rest| format!("multicard {rest}")).collect()
    }

    #[test]
    fn the_commands_and_options_that_sentences_name_are_there() {
        let changelog = include_str!("../../CHANGELOG.md").to_owned();
        let lines: Vec<String> = texts().iter().chain([&changelog]).flat_map(|text| named_commands(text)).collect();
        assert!(lines.len() > 60, "{lines:?}");
        for line in lines {
            // A sentence may leave out arguments, or name all values of an option.
            let error = super::super::Arguments::try_parse_from(words(&line)).err().map(|error| error.kind());
            let is_there = !matches!(error, Some(ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand));
            assert!(is_there, "{line}: there is no such command or option");
        }
    }

    #[test]
    fn the_command_lines_of_the_manual_and_the_readme_are_understood() {
        let lines: Vec<String> = texts().iter().flat_map(|text| command_lines(text)).collect();
        assert!(lines.len() > 25, "{lines:?}");
        for line in lines {
            // What follows a sign of the shell is another command.
            let command = line.split(" > ").next().unwrap_or_default();
            if let Err(error) = super::super::Arguments::try_parse_from(words(command)) {
                panic!("{line}\n{error}");
            }
        }
    }

    #[test]
    fn the_plans_of_the_manual_and_the_readme_are_read_and_those_of_the_readme_have_at_most_ten_lines() {
        let is_plan = |block: &&str| block.starts_with("version = 1\n") && block.contains("[factors]\n");
        let texts = texts();
        let plans: Vec<&str> = texts.iter().flat_map(|text| blocks(text).filter(is_plan)).collect();
        assert!(plans.len() > 5, "{plans:?}");
        for plan in plans {
            if let Err(error) = Plan::parse(plan, "plan.toml") {
                panic!("{plan}\n{error}");
            }
        }
        let readme: Vec<&str> = blocks(include_str!("../../README.md")).filter(is_plan).collect();
        assert_eq!(readme.len(), 2, "a first experiment and a program: {readme:?}");
        assert!(readme.iter().all(|plan| plan.lines().count() <= 10), "{readme:?}");
        assert!(include_str!("../../README.md").lines().count() < 150);
    }
}
