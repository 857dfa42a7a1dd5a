//! A text of headings, paragraphs, lists, tables and pictures, written as Markdown, as one page of HTML, and as LaTeX.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::figure::paper::{PAGE, Scene, inline, page_style};
use crate::figure::{self, Format, Table, render};
use crate::text_table::{
    TextTable, html_lines, html_prose, html_text, latex_prose, latex_text, markdown_prose, markdown_text,
};

/// A part of a document.
pub(super) enum Part {
    /// A heading with its level, from 1 (the document's title) to 4.
    Heading(u8, String),
    /// A paragraph.
    Paragraph(String),
    /// A list.
    List(Vec<String>),
    /// A table of a study with its notes.
    Table(Box<Table>),
    /// A table of text.
    Values(TextTable),
    /// A text that keeps its lines, such as a plan's file, folded where a page can fold it.
    Lines {
        /// What it is.
        title: String,
        /// The text.
        text: String,
    },
    /// A picture. The writer of the document writes its files, `figures/NAME.svg` and `figures/NAME.pdf`.
    Picture {
        /// The name of the picture's files without their ending.
        name: String,
        /// The picture's title.
        title: String,
        /// How it is drawn, which the page of HTML holds.
        scene: Box<Scene>,
    },
    /// Files beside the document: what each is and its path. A page of HTML needs no other file and does not name them.
    Files(Vec<(String, String)>),
}

/// A document.
#[derive(Default)]
pub(super) struct Document(pub(super) Vec<Part>);

impl Document {
    pub(super) fn heading(&mut self, level: u8, text: impl Into<String>) {
        self.0.push(Part::Heading(level, text.into()));
    }

    pub(super) fn paragraph(&mut self, text: impl Into<String>) {
        self.0.push(Part::Paragraph(text.into()));
    }

    /// Adds a list, unless it has no items.
    pub(super) fn list(&mut self, items: Vec<String>) {
        if !items.is_empty() {
            self.0.push(Part::List(items));
        }
    }

    /// Takes out the notes that several tables share, and returns each once with its number, to which the tables then refer. Notes that
    /// change how a table's rows are read stay with it.
    pub(super) fn share_notes(&mut self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let can_be_shared = |table: &&Table, note: &str| !table.lead.iter().any(|lead| lead == note);
        for table in self.tables() {
            for note in table.notes.iter().filter(|note| can_be_shared(&table, note)) {
                *counts.entry(note).or_default() += 1;
            }
        }
        let is_shared = |table: &&Table, note: &str| can_be_shared(table, note) && counts.get(note) > Some(&1);
        let mut shared: Vec<String> = Vec::new();
        for table in self.tables() {
            for note in table.notes.iter().filter(|note| is_shared(&table, note)) {
                if !shared.contains(note) {
                    shared.push(note.clone());
                }
            }
        }
        let numbers: BTreeMap<&str, usize> = shared.iter().map(String::as_str).zip(1..).collect();
        for part in &mut self.0 {
            let Part::Table(table) = part else { continue };
            let lead = table.lead.clone();
            let is_own = |note: &String| lead.contains(note) || !numbers.contains_key(note.as_str());
            let (own, others): (Vec<String>, Vec<String>) = table.notes.drain(..).partition(is_own);
            table.notes = own;
            if !others.is_empty() {
                let numbers: Vec<String> = others.iter().map(|note| format!("N{}", numbers[note.as_str()])).collect();
                table.notes.push(format!("shared notes, at the end: {}", numbers.join(", ")));
            }
        }
        (1..).zip(&shared).map(|(number, note)| format!("N{number}: {note}")).collect()
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.0.iter().filter_map(|part| match part {
            Part::Table(table) => Some(&**table),
            _ => None,
        })
    }

    /// The document as Markdown, with links to the files of its pictures.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        for part in &self.0 {
            text += &match part {
                Part::Heading(level, heading) => {
                    format!("{} {}\n", "#".repeat(usize::from(*level)), markdown_text(heading))
                }
                Part::Paragraph(paragraph) => format!("{}\n", markdown_prose(paragraph)),
                Part::List(items) => items.iter().map(|item| format!("- {}\n", markdown_prose(item))).collect(),
                Part::Table(table) => render(table, Format::Markdown),
                Part::Values(table) => table.markdown(),
                Part::Lines { title, text } => markdown_lines(title, text),
                Part::Picture { name, title, .. } => {
                    format!("![{}](figures/{name}.svg)\n", markdown_text(title))
                }
                Part::Files(files) => {
                    let link = |(name, path): &(String, String)| format!("[{}]({path})", markdown_text(name));
                    format!("{}\n", files.iter().map(link).collect::<Vec<_>>().join(", "))
                }
            };
            text.push('\n');
        }
        text
    }

    /// The document as one page of HTML that needs no other file: a click on the head of a column sorts the table,
    /// figures have light and dark colours like the page, and no script runs except the page's own.
    pub(super) fn html(&self) -> String {
        let title = self.0.iter().find_map(|part| if let Part::Heading(1, title) = part { Some(title) } else { None });
        let title = title.map_or(String::new(), |title| html_text(title));
        let scenes: Vec<&Scene> = self
            .0
            .iter()
            .filter_map(|part| if let Part::Picture { scene, .. } = part { Some(&**scene) } else { None })
            .collect();
        let style = page_style(&scenes) + &STYLE.replace("PAGE", &paper_colour());
        let policy = format!(
            "default-src 'none'; font-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'",
            checksum(&style),
            checksum(SCRIPT)
        );
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        );
        let mut place = 0;
        for part in &self.0 {
            page += &match part {
                Part::Heading(1, heading) => format!("<h1>{}</h1>\n{}", html_text(heading), self.contents()),
                Part::Heading(level, heading) => {
                    place += 1;
                    format!("<h{level} id=\"part-{place}\">{}</h{level}>\n", html_text(heading))
                }
                Part::Paragraph(paragraph) => format!("<p>{}</p>\n", html_prose(paragraph)),
                Part::List(items) => html_list(items),
                Part::Table(table) => {
                    format!("<div class=\"wide\">{}</div>\n{}", figure::html(table), html_list(&table.notes))
                }
                Part::Values(table) => format!("<div class=\"wide\">{}</div>\n", table.html()),
                Part::Lines { title, text } => format!(
                    "<details><summary>{}</summary>\n<pre>{}</pre></details>\n",
                    html_text(title),
                    html_lines(text)
                ),
                Part::Picture { title, scene, .. } => format!("<figure>\n{}</figure>\n", inline(scene, title)),
                Part::Files(_) => String::new(),
            };
        }
        page + &format!("<script>{SCRIPT}</script>\n</body>\n</html>\n")
    }

    /// Links to the headings below the title; none where there are few.
    fn contents(&self) -> String {
        let below = self.0.iter().filter_map(|part| match part {
            Part::Heading(level @ 2.., heading) => Some((*level, heading)),
            _ => None,
        });
        let links = (1..).zip(below).filter(|(_, (level, _))| *level == 2);
        let links: Vec<String> = links
            .map(|(place, (_, heading))| format!("<a href=\"#part-{place}\">{}</a>", html_text(heading)))
            .collect();
        if links.len() < 3 { String::new() } else { format!("<nav>{}</nav>\n", links.join("\n")) }
    }

    /// The document as LaTeX, which includes its pictures as PDF files from the folder `figures`.
    pub(super) fn latex(&self) -> String {
        let mut text = PREAMBLE.to_owned();
        for (place, part) in self.0.iter().enumerate() {
            text += &match part {
                Part::Heading(1, heading) => {
                    format!("\\title{{{}}}\n\\date{{}}\n\\author{{}}\n\\maketitle\n", latex_text(heading))
                }
                Part::Heading(level, heading) => {
                    let command = ["section", "subsection", "subsubsection"][usize::from((*level).clamp(2, 4)) - 2];
                    let room = self.room_below(place);
                    format!("\\needspace{{{room}\\textheight}}\n\\{command}*{{{}}}\n", latex_text(heading))
                }
                Part::Paragraph(paragraph) => format!("{}\n", latex_prose(paragraph)),
                Part::List(items) => latex_list(items),
                Part::Table(table) => {
                    let parts = figure::latex_parts(table, LINE).into_iter();
                    parts.map(|part| latex_table(&part)).collect::<String>() + &latex_list(&table.notes)
                }
                Part::Values(table) => latex_pages(table),
                Part::Lines { title, text } => {
                    let lines: Vec<String> =
                        text.lines().map(|line| format!("\\texttt{{{}}}", latex_text(line))).collect();
                    format!("{}:\n\n{{\\small\n{}}}\n", latex_text(title), lines.join("\\\\\n"))
                }
                Part::Files(_) => String::new(),
                Part::Picture { name, .. } => {
                    format!(
                        "\\begin{{center}}\\includegraphics[max width=\\linewidth, max height={PICTURE}\\textheight]{{figures/{name}.pdf}}\\end{{center}}\n"
                    )
                }
            };
            text.push('\n');
        }
        text + "\\end{document}\n"
    }

    /// The part of a page that a heading needs, so that it stays with the picture below it.
    fn room_below(&self, heading: usize) -> f64 {
        let below = self.0[heading + 1..].iter().take_while(|part| !matches!(part, Part::Heading(..)));
        if below.take(2).any(|part| matches!(part, Part::Picture { .. })) { PICTURE + 0.1 } else { 0.12 }
    }
}

const STYLE: &str = "\
:root { color-scheme: light dark; --line: #8884; --ink: #1b1b1b; --paper: #fff; --muted: #666; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: PAGE; --muted: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper); }
h2 { margin-top: 3rem; padding-top: 0.5rem; border-top: 1px solid var(--line); } h3 { margin-top: 2.5rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; font-size: 0.9rem; }
a { color: inherit; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { border-bottom: 2px solid var(--line); }
th[tabindex] { cursor: pointer; } th[aria-sort=ascending]::after { content: ' \\2191'; } th[aria-sort=descending]::after { content: ' \\2193'; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
ul { font-size: 14px; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: 0.7rem; border: 1px solid var(--line); font: 13px/1.45 ui-monospace, monospace; }
summary { cursor: pointer; }
figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; }
@page { margin: 15mm; }
@media print {
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0; } nav { display: none; }
  h2, h3, h2 + p, h3 + p { break-after: avoid; } figure, tr { break-inside: avoid; } thead { display: table-header-group; }
  .wide { overflow: visible; } table { font-size: 7.5pt; max-width: 100%; } ul { font-size: 8.5pt; }
  th, td { padding: 0.1rem 0.3rem; overflow-wrap: break-word; } .number { white-space: normal; }
  table:has(th:nth-child(10)) { font-size: 6pt; } table:has(th:nth-child(10)) :is(th, td) { padding: 0.1rem 0.15rem; }
  table:has(th:nth-child(18)) :is(th, td) { overflow-wrap: anywhere; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 8pt; }
}
";

/// Sorts a table by the column whose head is clicked, or chosen by a key: columns of numbers by their numbers, others by letters; again for the
/// opposite order. Fields without a value stay last.
const SCRIPT: &str = "\
const value = cell => {
  const text = cell.textContent.trim();
  const number = parseFloat(text.replace(/[\\s\\u202f\\u00a0]/g, '').replace(/\\u2212/g, '-').replace('\\u00d710', 'e'));
  return { text, number, missing: text === '' || text === '\\u2014' };
};
const order = (a, b, sign, byNumber) => {
  if (a.missing || b.missing) return a.missing - b.missing;
  if (byNumber && !isNaN(a.number) && !isNaN(b.number)) return sign * (a.number - b.number);
  return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
};
const sort = head => {
  const up = head.getAttribute('aria-sort') !== 'ascending', body = head.closest('table').tBodies[0];
  for (const other of head.parentElement.cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const rows = [...body.rows].map(row => ({ row, value: value(row.cells[head.cellIndex]) }));
  rows.sort((a, b) => order(a.value, b.value, up ? 1 : -1, head.classList.contains('number')));
  body.append(...rows.map(({ row }) => row));
};
for (const head of document.querySelectorAll('thead th')) {
  head.tabIndex = 0;
  head.title = 'Sort by this column';
  head.addEventListener('click', () => sort(head));
  head.addEventListener('keydown', event => {
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); sort(head); }
  });
}
addEventListener('beforeprint', () => { for (const part of document.querySelectorAll('details')) part.open = true; });
";

/// The dark paper of a page.
fn paper_colour() -> String {
    let [red, green, blue] = PAGE;
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// The checksum of a page's style or script, which the page states so that browsers accept no other style or script.
fn checksum(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

/// A text as a block of code, between fences that are longer than any row of backticks in the text.
fn markdown_lines(title: &str, text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{}:\n\n{fence}\n{}\n{fence}\n", markdown_text(title), text.trim_end())
}

/// The length of the longest row of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

const PREAMBLE: &str = "% Packages of Debian: texlive-latex-extra, texlive-science, lmodern.\n\\documentclass[10pt,a4paper]{article}\n\
                        \\usepackage[T1]{fontenc}\n\\usepackage[utf8]{inputenc}\n\\usepackage{lmodern}\n\
                        \\usepackage[margin=20mm]{geometry}\n\\usepackage{array, booktabs, longtable, siunitx, graphicx, needspace, pdflscape}\n\
                        \\usepackage[export]{adjustbox}\n\\setlength{\\parindent}{0pt}\n\\setlength{\\parskip}{0.5em}\n\
                        \\begin{document}\n\\sloppy\n";

fn html_list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", html_prose(item))).collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

fn latex_list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("\\item {}\n", latex_prose(item))).collect();
    if items.is_empty() { items } else { format!("{{\\small\\begin{{itemize}}\n{items}\\end{{itemize}}}}\n") }
}

/// Characters in a line of a table that is set as small as its notes.
const LINE: usize = 105;

/// The largest number of rows that fit on one page, and the largest number for which no page is turned.
const ROWS: usize = 30;
const FEW_ROWS: usize = 8;
/// The greatest height of a picture, as a part of the page.
const PICTURE: f64 = 0.5;
/// The width of a line in em of small print, on an upright page and on a turned page.
const LINE_EM: usize = 56;
const TURNED_LINE_EM: usize = 86;

/// A table as a `tabular`, or as a `longtable` over several pages if it is long.
fn latex_table(table: &TextTable) -> String {
    if table.len() > ROWS { latex_pages(table) } else { shrunk(table) }
}

/// A `longtable` in small print, on turned pages if it is wide. A wide table of a few rows is shrunk instead.
fn latex_pages(table: &TextTable) -> String {
    let small =
        |line_em| format!("{{\\footnotesize\\setlength{{\\tabcolsep}}{{4pt}}\n{}}}\n", table.latex_pages(line_em));
    if table.least_em() <= LINE_EM {
        small(LINE_EM)
    } else if table.len() <= FEW_ROWS {
        shrunk(table)
    } else {
        format!("\\begin{{landscape}}\n{}\\end{{landscape}}\n", small(TURNED_LINE_EM))
    }
}

/// A `tabular`, shrunk to the width of the page where it is wider.
fn shrunk(table: &TextTable) -> String {
    let tabular = table.latex();
    format!(
        "\\begin{{center}}\\small\\begin{{adjustbox}}{{max width=\\linewidth}}\n{tabular}\\end{{adjustbox}}\\end{{center}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_table::Field;

    #[test]
    fn notes_of_several_tables_are_written_once_unless_they_change_how_rows_are_read() {
        let table = |notes: [&str; 3], lead: &str| {
            let notes = notes.map(str::to_owned).to_vec();
            let lead = vec![lead.to_owned()];
            let (columns, rows) = (Vec::new(), Vec::new());
            Part::Table(Box::new(Table { study: String::new(), columns, rows, notes, lead }))
        };
        let notes = ["quick runs", "held: fp32", "of 3 runs"];
        let mut document =
            Document(vec![table(notes, "quick runs"), table(["of 3 runs", "quick runs", "own"], "quick runs")]);
        assert_eq!(document.share_notes(), ["N1: of 3 runs"]);
        let left: Vec<&[String]> = document.tables().map(|table| &*table.notes).collect();
        assert_eq!(left[0], ["quick runs", "held: fp32", "shared notes, at the end: N1"]);
        assert_eq!(left[1], ["quick runs", "own", "shared notes, at the end: N1"]);
    }

    #[test]
    fn each_format_writes_every_part_and_lets_no_text_act() {
        let mut document = Document::default();
        document.heading(1, "A & <b>");
        document.heading(3, "50 % of *all*");
        document.paragraph("x_1 < 2");
        document.list(vec!["±1 %".to_owned()]);
        let mut table = TextTable::new("lr", ["Name", "n"]);
        table.row(["a|b".into(), Field::Ready("3".to_owned())]);
        document.0.push(Part::Values(table));
        let scene = Box::new(Scene { width: 10.0, height: 20.0, ..Scene::default() });
        document.0.push(Part::Picture { name: "fig-1".to_owned(), title: "Figure \"1\"".to_owned(), scene });
        document.0.push(Part::Lines { title: "plan <p1>".to_owned(), text: "a = \"<b>\"\n```\n".to_owned() });
        document.0.push(Part::Files(vec![("SVG".to_owned(), "figures/fig-1.svg".to_owned())]));
        let markdown = document.markdown();
        for part in [
            "# A & \\<b>",
            "### 50 % of \\*all\\*",
            "x_1 \\< 2",
            "- ±1 %",
            "| a\\|b | 3 |",
            "(figures/fig-1.svg)",
            "````\na = \"<b>\"\n```\n````\n",
        ] {
            assert!(markdown.contains(part), "{part} in\n{markdown}");
        }
        let html = document.html();
        for part in [
            "<title>A &amp; &lt;b&gt;</title>",
            "<h3 id=\"part-1\">50 % of *all*</h3>",
            "<p>x_1 &lt; 2</p>",
            "<td class=\"number\">3</td>",
            "aria-label=\"Figure &quot;1&quot;\"",
            "<summary>plan &lt;p1&gt;</summary>\n<pre>a = &quot;&lt;b&gt;&quot;\n```\n</pre>",
        ] {
            assert!(html.contains(part), "{part} in\n{html}");
        }
        let latex = document.latex();
        for part in [
            "\\title{A \\& \\textless{}b\\textgreater{}}",
            "\\subsection*{50 \\% of *all*}",
            "\\item $\\pm$1 \\%",
            "a|b & 3",
            "{figures/fig-1.pdf}",
        ] {
            assert!(latex.contains(part), "{part} in\n{latex}");
        }
    }
}
