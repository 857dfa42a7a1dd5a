//! Tables as text: Markdown, CSV, LaTeX and HTML from the same columns and rows. Texts are escaped, so that none of them acts as markup or
//! a formula.

use crate::foreign;

/// One field of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Text, which each format escapes.
    Text(String),
    /// A number, or markup of the format that is written.
    Ready(String),
}

impl Field {
    /// The text as a format escapes it, or the ready markup.
    fn written(&self, escape: fn(&str) -> String) -> String {
        match self {
            Self::Text(text) => escape(text),
            Self::Ready(ready) => ready.clone(),
        }
    }

    /// About how many characters it shows: of the longest line, without the commands of LaTeX.
    fn shown_length(&self) -> usize {
        let ready = match self {
            Self::Text(text) => return text.chars().count(),
            Self::Ready(ready) => ready,
        };
        let shown = |line: &str| {
            let mut is_command = false;
            let is_shown = |character: &char| {
                is_command = *character == '\\' || (is_command && character.is_alphabetic());
                !is_command && !"{}$".contains(*character)
            };
            line.chars().filter(is_shown).count()
        };
        ready.split("\\\\").map(shown).max().unwrap_or(0)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Field {
    fn from(count: u64) -> Self {
        Self::Ready(count.to_string())
    }
}

impl From<usize> for Field {
    fn from(count: usize) -> Self {
        Self::Ready(count.to_string())
    }
}

/// The widest field that is filled up with spaces, in characters: sentences would push the other columns out of the terminal.
const WIDEST_ALIGNED: usize = 40;

/// Markdown as text for a terminal. The fields of tables as [`TextTable::markdown`] writes them are filled up with spaces, so that numbers
/// stand below each other. Tables, lists and quotes lose the escapes of [`markdown_text`]. Other lines are not changed: they may be of
/// another format.
pub fn for_terminal(markdown: &str) -> String {
    let lines: Vec<&str> = markdown.lines().collect();
    let is_table = |lines: &[&str]| lines.len() > 1 && lines[0].starts_with("| ") && lines[1].starts_with("|---");
    let mut text = String::with_capacity(markdown.len());
    let mut rest = &lines[..];
    while let Some(line) = rest.first() {
        let rows = if is_table(rest) { rest.iter().take_while(|line| line.starts_with('|')).count() } else { 0 };
        if rows > 0 {
            text += &aligned_table(&rest[..rows]);
        } else {
            let is_prose = line.starts_with("- ") || line.starts_with("> ");
            text += &if is_prose { unescaped(line) } else { (*line).to_owned() };
            text.push('\n');
        }
        rest = &rest[rows.max(1)..];
    }
    text
}

/// The lines of one table with fields of equal width. The second line says which columns are aligned right.
fn aligned_table(lines: &[&str]) -> String {
    let fields = |line: &&str| -> Vec<String> { fields_of(line).into_iter().map(unescaped).collect() };
    let rows: Vec<Vec<String>> = lines.iter().map(fields).collect();
    let width = |column: usize| {
        let texts = rows.iter().enumerate().filter(|(row, _)| *row != 1).filter_map(|(_, fields)| fields.get(column));
        texts.map(|text| text.chars().count()).max().unwrap_or(0).clamp(3, WIDEST_ALIGNED)
    };
    let columns: Vec<(usize, bool)> =
        rows[1].iter().enumerate().map(|(column, rule)| (width(column), rule.ends_with(':'))).collect();
    let line = |(row, fields): (usize, &Vec<String>)| {
        let field = |(text, &(width, is_right)): (&String, &(usize, bool))| match (row, is_right) {
            (1, false) => format!("{:-<1$}|", "", width + 2),
            (1, true) => format!("{:-<1$}:|", "", width + 1),
            (_, false) => format!(" {text:<width$} |"),
            (_, true) => format!(" {text:>width$} |"),
        };
        format!("|{}\n", fields.iter().zip(&columns).map(field).collect::<String>())
    };
    rows.iter().enumerate().map(line).collect()
}

/// The fields of a line of a table, as they are escaped.
fn fields_of(line: &str) -> Vec<&str> {
    let (mut fields, mut start, mut is_escaped) = (Vec::new(), 1, false);
    for (place, letter) in line.char_indices().skip(1) {
        if letter == '|' && !is_escaped {
            fields.push(line[start..place].trim());
            start = place + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    fields
}

/// A table of text.
#[derive(Clone, Debug)]
pub struct TextTable {
    /// The alignment of each column, as LaTeX writes it: `l` or `r`.
    sides: String,
    head: Vec<Field>,
    rows: Vec<Vec<Field>>,
}

impl TextTable {
    /// A table with these headings and no rows; `sides` has an `l` or an `r` for each column, its alignment.
    pub fn new<F: Into<Field>>(sides: impl Into<String>, head: impl IntoIterator<Item = F>) -> Self {
        Self { sides: sides.into(), head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row, which has a field for each heading.
    pub fn row(&mut self, fields: impl IntoIterator<Item = Field>) {
        self.rows.push(fields.into_iter().collect());
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps only the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// As Markdown: a pipe table of GitHub's.
    pub fn markdown(&self) -> String {
        let rules: Vec<&str> = self.sides.chars().map(|side| if side == 'r' { "---:" } else { "---" }).collect();
        let line = |fields: &[Field]| format!("| {} |\n", join(fields, " | ", markdown_text));
        line(&self.head)
            + &format!("|{}|\n", rules.join("|"))
            + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }

    /// As CSV: RFC 4180 with plain newlines.
    pub fn csv(&self) -> String {
        let lines = std::iter::once(&self.head).chain(&self.rows);
        lines.map(|fields| join(fields, ",", csv_text) + "\n").collect()
    }

    /// As a `table` of HTML; numbers have the class `number`.
    pub fn html(&self) -> String {
        let line = |fields: &[Field], tag: &str| {
            let field = |(field, side): (&Field, char)| {
                let class = if side == 'r' { " class=\"number\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", field.written(html_text))
            };
            format!("<tr>{}</tr>\n", fields.iter().zip(self.sides.chars()).map(field).collect::<String>())
        };
        let rows: String = self.rows.iter().map(|row| line(row, "td")).collect();
        format!("<table>\n<thead>\n{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n", line(&self.head, "th"))
    }

    /// As a `tabular` of LaTeX with rules of booktabs. Columns of long texts wrap, which needs the package array.
    pub fn latex(&self) -> String {
        let (head, rows) = (latex_line(&self.head), self.latex_rows());
        let columns = self.latex_columns(&vec![WRAPPED_EM; self.head.len()]);
        format!("\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}\n")
    }

    /// As a `longtable` of LaTeX, which goes on over pages and repeats its headings on each. Its lines are `line_em` wide: columns of
    /// long texts share the room that the others leave.
    pub fn latex_pages(&self, line_em: usize) -> String {
        let (head, rows) = (latex_line(&self.head), self.latex_rows());
        let columns = self.latex_columns(&self.shared_em(line_em));
        format!(
            "\\begin{{longtable}}{{{columns}}}\n\\toprule\n{head}\\midrule\n\\endhead\n{rows}\\bottomrule\n\\end{{longtable}}\n"
        )
    }

    /// The width of its lines in LaTeX if columns of long texts are as narrow as can be read.
    pub fn least_em(&self) -> usize {
        let column = |place: usize| if self.is_long(place) { WRAPPED_EM } else { self.widest_em(place) };
        (0..self.head.len()).map(|place| column(place) + BETWEEN_EM).sum()
    }

    /// How many characters the widest text of a column takes, wrapped as in LaTeX.
    pub fn wrapped_width(&self, column: usize) -> usize {
        let length = |row: &Vec<Field>| match row.get(column) {
            Some(Field::Text(text) | Field::Ready(text)) => text.chars().count(),
            None => 0,
        };
        let widest = self.rows.iter().map(length).max().unwrap_or(0);
        let wraps = self.sides.chars().nth(column) == Some('l') && widest > WRAPPED_FROM;
        if wraps { 2 * WRAPPED_EM } else { widest }
    }

    fn latex_rows(&self) -> String {
        self.rows.iter().map(|row| latex_line(row)).collect()
    }

    /// The columns with their alignment; those of long texts have these widths.
    fn latex_columns(&self, wrapped_em: &[usize]) -> String {
        let column = |(place, side): (usize, char)| {
            if self.is_long(place) {
                format!(">{{\\raggedright\\arraybackslash}}p{{{}em}}", wrapped_em[place])
            } else {
                side.to_string()
            }
        };
        self.sides.chars().enumerate().map(column).collect()
    }

    /// Whether the texts of a column wrap in LaTeX.
    fn is_long(&self, place: usize) -> bool {
        let is_long =
            |row: &Vec<Field>| matches!(&row[place], Field::Text(text) if text.chars().count() > WRAPPED_FROM);
        self.sides.chars().nth(place) == Some('l') && self.rows.iter().any(is_long)
    }

    /// The widths of all columns in lines of `line_em`: columns of long texts share the room by the mean length of their texts.
    fn shared_em(&self, line_em: usize) -> Vec<usize> {
        let room = line_em.saturating_sub(self.least_em());
        let letters = |place: usize| self.rows.iter().map(|row| row[place].shown_length()).sum::<usize>();
        let all: usize = (0..self.head.len()).filter(|place| self.is_long(*place)).map(letters).sum();
        let share = |place: usize| WRAPPED_EM + room * letters(place) / all.max(1);
        (0..self.head.len())
            .map(|place| if self.is_long(place) { share(place) } else { self.widest_em(place) })
            .collect()
    }

    /// About the width of a column whose texts do not wrap.
    fn widest_em(&self, place: usize) -> usize {
        let fields = std::iter::once(&self.head).chain(&self.rows).map(|fields| fields[place].shown_length());
        fields.max().unwrap_or(0).div_ceil(2)
    }
}

/// Texts of LaTeX's tables wrap if one of their column has more characters.
const WRAPPED_FROM: usize = 30;
/// How wide they then are at least, in em: some 20 characters.
const WRAPPED_EM: usize = 10;
/// The room between two columns, in em.
const BETWEEN_EM: usize = 1;

fn latex_line(fields: &[Field]) -> String {
    let line = join(fields, " & ", latex_text);
    // After the end of a line or a rule, LaTeX takes a bracket or a star for an option of that command.
    let text = line.trim_start();
    if text.starts_with(['[', '*']) {
        let (sign, rest) = text.split_at(1);
        return format!("{{{sign}}}{rest} \\\\\n");
    }
    line + " \\\\\n"
}

fn join(fields: &[Field], between: &str, escape: fn(&str) -> String) -> String {
    fields.iter().map(|field| field.written(escape)).collect::<Vec<_>>().join(between)
}

/// The characters that may be markup in Markdown.
const MARKUP: [char; 7] = ['\\', '|', '*', '`', '<', '[', ']'];

/// Text for Markdown, on one line and without markup.
pub fn markdown_text(text: &str) -> String {
    escaped(text, |character| MARKUP.contains(&character).then(|| format!("\\{character}")))
}

/// A line of Markdown without the escapes of [`markdown_text`]. Code between backticks has none.
fn unescaped(line: &str) -> String {
    let (mut text, mut is_code) = (String::with_capacity(line.len()), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_escape = letter == '\\' && !is_code;
        text.push(letters.next_if(|next| is_escape && MARKUP.contains(next)).unwrap_or(letter));
        is_code ^= letter == '`';
    }
    text
}

/// Text for HTML, on one line and without markup.
pub fn html_text(text: &str) -> String {
    escaped(text, |character| match character {
        '&' => Some("&amp;".to_owned()),
        '<' => Some("&lt;".to_owned()),
        '>' => Some("&gt;".to_owned()),
        '"' => Some("&quot;".to_owned()),
        _ => None,
    })
}

/// Text for HTML that keeps its lines, as in `pre`.
pub fn html_lines(text: &str) -> String {
    text.lines().map(|line| html_text(line) + "\n").collect()
}

/// Text for LaTeX, on one line and without commands.
pub fn latex_text(text: &str) -> String {
    let text = escaped(text, |character| match character {
        '%' | '_' | '&' | '#' | '$' | '{' | '}' => Some(format!("\\{character}")),
        '\\' => Some("\\textbackslash{}".to_owned()),
        '~' => Some("\\textasciitilde{}".to_owned()),
        '^' => Some("\\textasciicircum{}".to_owned()),
        '<' => Some("\\textless{}".to_owned()),
        '>' => Some("\\textgreater{}".to_owned()),
        '×' => Some("$\\times$".to_owned()),
        '±' => Some("$\\pm$".to_owned()),
        '≥' => Some("$\\ge$".to_owned()),
        '≤' => Some("$\\le$".to_owned()),
        '→' => Some("$\\to$".to_owned()),
        '·' => Some("$\\cdot$".to_owned()),
        '−' => Some("$-$".to_owned()),
        'µ' | 'μ' => Some("$\\mu$".to_owned()),
        '∞' => Some("$\\infty$".to_owned()),
        '√' => Some("$\\surd$".to_owned()),
        '…' => Some("\\ldots{}".to_owned()),
        _ => None,
    });
    // LaTeX sets two hyphens as one dash: options of commands would lose one.
    text.replace("--", "-{}-{}")
}

/// A sentence for Markdown: as `markdown_text`, but text between backticks is code.
pub fn markdown_prose(text: &str) -> String {
    prose(text, markdown_text, |code| format!("`{}`", one_line(code)))
}

/// A sentence for HTML: as `html_text`, but text between backticks is code.
pub fn html_prose(text: &str) -> String {
    prose(text, html_text, |code| format!("<code>{}</code>", html_text(code)))
}

/// A sentence for LaTeX: as `latex_text`, but text between backticks is code.
pub fn latex_prose(text: &str) -> String {
    prose(text, latex_text, |code| format!("\\texttt{{{}}}", latex_text(code)))
}

/// A sentence with code between pairs of backticks. A backtick without a partner is plain text.
fn prose(text: &str, plain: fn(&str) -> String, code: impl Fn(&str) -> String) -> String {
    let written = |(part, is_code): (&str, bool)| if is_code { code(part) } else { plain(part) };
    foreign::code_parts(text).into_iter().map(written).collect()
}

fn one_line(text: &str) -> String {
    escaped(text, |_| None)
}

/// Text as a field of a CSV file. A spreadsheet would compute a text that begins with `=`, `+`, `-` or `@`; an apostrophe in front prevents
/// that.
pub fn csv_text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = foreign::printable(text);
    let field = if is_formula { format!("'{text}") } else { text.into_owned() };
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

/// Text with some characters replaced, with spaces in place of line breaks and characters that control a terminal, and with the numbers of
/// characters that change the order of text or hide it.
fn escaped(text: &str, replaced: impl Fn(char) -> Option<String>) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match replaced(character) {
            Some(replacement) => escaped += &replacement,
            None if character.is_control() => escaped.push(' '),
            None if foreign::misleads(character) => escaped += &format!("U+{:04X}", u32::from(character)),
            None => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_wrap_in_latex_and_options_keep_both_hyphens() {
        let mut table = TextTable::new("lr", ["Note", "Value"]);
        table.row(["short".into(), 1_usize.into()]);
        assert!(table.latex().starts_with("\\begin{tabular}{lr}\n"), "{}", table.latex());
        table.row(["a note of more characters than a column has".into(), 2_usize.into()]);
        let wrapped = "{>{\\raggedright\\arraybackslash}p{10em}r}\n\\toprule\nNote & Value \\\\\n\\midrule\n";
        assert!(table.latex().starts_with(&format!("\\begin{{tabular}}{wrapped}")), "{}", table.latex());
        let pages = table.latex_pages(0);
        assert!(pages.starts_with(&format!("\\begin{{longtable}}{wrapped}\\endhead\n")), "{pages}");
        assert_eq!(latex_text("run --preset x---y"), "run -{}-{}preset x-{}-{}-y");
    }

    #[test]
    fn long_texts_share_the_line_that_short_ones_leave() {
        let mut table = TextTable::new("lrll", ["Place", "Value", "Levels", "Note"]);
        let value = Field::Ready("\\num{1.25} [\\num{1.20}, \\num{1.30}]".to_owned());
        assert_eq!(value.shown_length(), "1.25 [1.20, 1.30]".len());
        table.row(["Table 2".into(), value, "x".repeat(40).into(), "y".repeat(120).into()]);
        assert_eq!(table.least_em(), 4 + 9 + 10 + 10 + 4);
        let columns = "{lr>{\\raggedright\\arraybackslash}p{15em}>{\\raggedright\\arraybackslash}p{25em}}";
        let pages = table.latex_pages(57);
        assert!(pages.starts_with(&format!("\\begin{{longtable}}{columns}\n")), "{pages}");
    }

    #[test]
    fn escapes_of_terminals_are_written_out() {
        assert_eq!(csv_text("\u{1b}[31mred\u{202e}"), "\\u001b[31mred\\u202e");
        // A backslash would begin a command of LaTeX.
        for text in [latex_text, html_text, markdown_text] {
            assert_eq!(text("\u{1b}[red\u{202e}der\u{e0041}").replace("\\[", "["), " [redU+202EderU+E0041");
        }
    }

    #[test]
    fn text_that_a_spreadsheet_would_compute_stays_text() {
        let written = ["fp16", "=1+2", "+1", "-fast", "@sum", "a,b", "=\"x\"", ""].map(csv_text);
        assert_eq!(written, ["fp16", "'=1+2", "'+1", "'-fast", "'@sum", "\"a,b\"", "\"'=\"\"x\"\"\"", ""]);
    }

    #[test]
    fn code_in_a_sentence_is_set_as_code_and_a_lone_backtick_is_text() {
        let sentence = "hold <sessions> with `diff a_1 *b`, then look";
        assert_eq!(markdown_prose(sentence), "hold \\<sessions> with `diff a_1 *b`, then look");
        assert_eq!(html_prose(sentence), "hold &lt;sessions&gt; with <code>diff a_1 *b</code>, then look");
        assert_eq!(latex_prose("`a_1`: 5 %"), "\\texttt{a\\_1}: 5 \\%");
        assert_eq!(markdown_prose("`a` and ` *alone*"), "`a` and \\` \\*alone\\*");
        assert_eq!(html_prose("no code"), "no code");
    }

    #[test]
    fn for_a_terminal_columns_are_aligned_and_text_has_no_escapes() {
        let mut table = TextTable::new("lr", ["Kernel", "Time (ms)"]);
        table.row(["gemm".into(), Field::Ready("16.1 [15.9, 17.1]".to_owned())]);
        table.row(["a|b".into(), Field::Ready("4.10".to_owned())]);
        let note = markdown_prose("declare [command.readings], `grep '\\[a*'` or a lone ` *here*");
        let text = format!("# times\n\n{}\n- {note}\n\"a\\\\[\": 1\n", table.markdown());
        let expected = "# times\n\n\
                        | Kernel |         Time (ms) |\n\
                        |--------|------------------:|\n\
                        | gemm   | 16.1 [15.9, 17.1] |\n\
                        | a|b    |              4.10 |\n\n\
                        - declare [command.readings], `grep '\\[a*'` or a lone ` *here*\n\"a\\\\[\": 1\n";
        assert_eq!(for_terminal(&text), expected);
    }

    #[test]
    fn a_bracket_or_a_star_at_the_begin_of_a_row_is_no_option_of_latex() {
        let line = |first: &str| latex_line(&[first.into(), "[2] *".into()]);
        assert_eq!(line("[64, 128]"), "{[}64, 128] & [2] * \\\\\n");
        assert_eq!(line("*"), "{*} & [2] * \\\\\n");
        assert_eq!(line(" [1]"), "{[}1] & [2] * \\\\\n");
        assert_eq!([line(""), line("a[1]")], [" & [2] * \\\\\n", "a[1] & [2] * \\\\\n"]);
    }

    #[test]
    fn each_format_escapes_text_and_leaves_numbers_and_markup_as_they_are() {
        let mut table = TextTable::new("lr", ["Kernel", "Time (%)"]);
        table.row(["=a|b_c\n".into(), Field::Ready("-1.5".to_owned())]);
        assert_eq!(table.markdown(), "| Kernel | Time (%) |\n|---|---:|\n| =a\\|b_c  | -1.5 |\n");
        assert!(table.html().contains("<tr><td>=a|b_c </td><td class=\"number\">-1.5</td></tr>"), "{}", table.html());
        assert_eq!(html_text("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
        assert_eq!(table.csv(), "Kernel,Time (%)\n\"'=a|b_c\n\",-1.5\n");
        let rows = "Kernel & Time (\\%) \\\\\n\\midrule\n=a|b\\_c  & -1.5 \\\\\n";
        assert_eq!(
            table.latex(),
            format!("\\begin{{tabular}}{{lr}}\n\\toprule\n{rows}\\bottomrule\n\\end{{tabular}}\n")
        );
    }
}
