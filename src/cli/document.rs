//! A text of headings, paragraphs, lists, tables and pictures, written as Markdown, as one page of HTML, and as LaTeX.

use std::fmt::Write as _;

use crate::figure::{self, Format, Table, render};
use crate::text_table::{TextTable, html_prose, html_text, latex_prose, latex_text, markdown_prose, markdown_text};

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
    /// A picture. The writer of the document writes its files, `figures/NAME.svg` and `figures/NAME.pdf`.
    Picture {
        /// The name of the picture's files without their ending.
        name: String,
        /// The picture's title.
        title: String,
        /// The SVG, which is embedded in the page of HTML.
        svg: String,
    },
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
                Part::Picture { name, title, .. } => {
                    format!("![{}](figures/{name}.svg)\n", markdown_text(title))
                }
            };
            text.push('\n');
        }
        text
    }

    /// The document as one page of HTML that needs no other file.
    pub(super) fn html(&self) -> String {
        let mut page = format!("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{STYLE}");
        let title = self.0.iter().find_map(|part| if let Part::Heading(1, title) = part { Some(title) } else { None });
        let title = title.map_or(String::new(), |title| html_text(title));
        let _infallible = writeln!(page, "<title>{title}</title>\n</head>\n<body>");
        for part in &self.0 {
            page += &match part {
                Part::Heading(level, heading) => format!("<h{level}>{}</h{level}>\n", html_text(heading)),
                Part::Paragraph(paragraph) => format!("<p>{}</p>\n", html_prose(paragraph)),
                Part::List(items) => html_list(items),
                Part::Table(table) => {
                    format!("<div class=\"wide\">{}</div>\n{}", figure::html(table), html_list(&table.notes))
                }
                Part::Values(table) => format!("<div class=\"wide\">{}</div>\n", table.html()),
                // An image of its own: names within one SVG mean nothing in another.
                Part::Picture { title, svg, .. } => format!(
                    "<figure><img alt=\"{}\" src=\"data:image/svg+xml,{}\"></figure>\n",
                    html_text(title),
                    percent_encoded(svg)
                ),
            };
        }
        page + "</body>\n</html>\n"
    }

    /// The document as LaTeX, which includes its pictures as PDF files from the folder `figures`.
    pub(super) fn latex(&self) -> String {
        let mut text = PREAMBLE.to_owned();
        for part in &self.0 {
            text += &match part {
                Part::Heading(1, heading) => {
                    format!("\\title{{{}}}\n\\date{{}}\n\\author{{}}\n\\maketitle\n", latex_text(heading))
                }
                Part::Heading(level, heading) => {
                    let command = ["section", "subsection", "subsubsection"][usize::from((*level).clamp(2, 4)) - 2];
                    format!("\\{command}*{{{}}}\n", latex_text(heading))
                }
                Part::Paragraph(paragraph) => format!("{}\n", latex_prose(paragraph)),
                Part::List(items) => latex_list(items),
                Part::Table(table) => {
                    let alone = Table { notes: Vec::new(), ..(**table).clone() };
                    latex_table(&render(&alone, Format::Latex)) + &latex_list(&table.notes)
                }
                Part::Values(table) => latex_table(&table.latex()),
                Part::Picture { name, .. } => {
                    format!(
                        "\\begin{{center}}\\includegraphics[max width=\\linewidth]{{figures/{name}.pdf}}\\end{{center}}\n"
                    )
                }
            };
            text.push('\n');
        }
        text + "\\end{document}\n"
    }
}

const STYLE: &str = "<style>\nbody { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; \
                     color: #1b1b1b; background: #fff; }\nh2 { margin-top: 3rem; border-bottom: 1px solid #ccc; }\n\
                     h3 { margin-top: 2.5rem; }\n.wide { overflow-x: auto; }\n\
                     table { border-collapse: collapse; font-size: 13px; }\n\
                     th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }\n\
                     th { border-bottom: 2px solid #888; }\n\
                     .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }\n\
                     ul { font-size: 14px; }\nfigure { margin: 1rem 0; }\nimg { max-width: 100%; }\n</style>\n";

const PREAMBLE: &str = "% Packages of Debian: texlive-latex-extra, texlive-science, lmodern.\n\\documentclass[10pt,a4paper]{article}\n\
                        \\usepackage[T1]{fontenc}\n\\usepackage[utf8]{inputenc}\n\\usepackage{lmodern}\n\
                        \\usepackage[margin=20mm]{geometry}\n\\usepackage{booktabs, siunitx, graphicx}\n\
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

/// A `tabular`, shrunk to the width and height of the page where it is larger.
fn latex_table(tabular: &str) -> String {
    format!(
        "\\begin{{center}}\\begin{{adjustbox}}{{max width=\\linewidth, max totalheight=0.95\\textheight}}\n{tabular}\\end{{adjustbox}}\\end{{center}}\n"
    )
}

/// Bytes of a file, encoded for a `data:` address.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b' ' | b'-' | b'_' | b'.' | b'/' | b'=' | b':' | b';' | b',' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _infallible = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_table::Field;

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
        let (name, title, svg) = ("fig-1".to_owned(), "Figure 1".to_owned(), "<svg id=\"a#b\"/>".to_owned());
        document.0.push(Part::Picture { name, title, svg });
        let markdown = document.markdown();
        for part in
            ["# A & \\<b>", "### 50 % of \\*all\\*", "x_1 \\< 2", "- ±1 %", "| a\\|b | 3 |", "(figures/fig-1.svg)"]
        {
            assert!(markdown.contains(part), "{part} in\n{markdown}");
        }
        let html = document.html();
        for part in [
            "<title>A &amp; &lt;b&gt;</title>",
            "<h3>50 % of *all*</h3>",
            "<p>x_1 &lt; 2</p>",
            "<td class=\"number\">3</td>",
            "src=\"data:image/svg+xml,%3Csvg id=%22a%23b%22/%3E\"",
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
