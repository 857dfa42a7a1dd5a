//! What is in the files of figures: fonts, provenance, resolution, and what is said of foreign and broken files.

use super::*;

#[test]
fn the_same_figure_is_the_same_bytes() {
    let make = |format: PaperFormat| {
        let figure = preset("scaling");
        encode(&figure.scene(), &figure.provenance(vec![origin()]), format).unwrap()
    };
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 100 }] {
        assert!(make(format) == make(format), "{format:?}");
    }
}

#[test]
fn a_file_gives_back_where_it_comes_from() {
    let figure = figure_of(&Study {
        filter: "fp".to_owned(),
        hidden: vec![("gpus".into(), Level::Integer(2))],
        baseline: Some("precision=fp32,gpus=1".to_owned()),
        log: true,
        ..study("speedup").unwrap()
    });
    let provenance = figure.provenance(vec![origin()]);
    assert_eq!((provenance.cells.len(), provenance.cells[0].runs.len()), (4, 6));
    assert_eq!(provenance.sessions[0].date, "2026-11-21T08:08:39Z");
    assert!(!provenance.json().contains("secret"));
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        assert_eq!(read_provenance(&bytes).unwrap(), provenance, "{format:?}");
    }
}

#[test]
fn text_of_others_neither_ends_an_element_nor_changes_the_order_of_text_and_is_given_back() {
    let hostile =
        "</metadata></title><script>a</script>]]> \u{202e}b\u{2066}c\u{200f}d\u{85}e\u{1b}[2Jf\u{0}g\u{e0041} & \"'";
    let figure = preset("times");
    let mut origin = origin();
    (origin.session, origin.plans[0].name, origin.plans[0].toml) = (hostile.into(), hostile.into(), hostile.into());
    let provenance = Provenance { title: hostile.to_owned(), ..figure.provenance(vec![origin]) };
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        assert_eq!(read_provenance(&bytes).unwrap(), provenance, "{format:?}");
        // Neither as UTF-8, nor as the UTF-16 of a PDF's title.
        for mark in ["\u{202e}", "\u{2066}", "\u{200f}", "\u{e0041}"] {
            let utf16: Vec<u8> = mark.encode_utf16().flat_map(u16::to_be_bytes).collect();
            let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(!has(mark.as_bytes()), "{format:?} {mark:?}");
            assert!(mark != "\u{202e}" || format != PaperFormat::Pdf || !has(&[&utf16[..], &[0, b'b']].concat()));
        }
        if format == PaperFormat::Svg {
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(["<title>", "<metadata", "<script>"].map(|tag| text.matches(tag).count()), [1, 1, 0]);
            assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'));
        }
    }
}

#[test]
fn foreign_cut_and_swollen_files_are_answered_with_what_is_wrong() {
    let message = |bytes: &[u8]| read_provenance(bytes).unwrap_err().to_string();
    assert!(message(b"").contains("neither SVG, PDF nor PNG"));
    assert!(message(b"<svg xmlns='http://www.w3.org/2000/svg'/>").contains("holds no figure of multicard"));
    assert!(message(b"%PDF-1.7\n%%EOF").contains("this PDF holds no figure"));
    assert!(message(b"\x89PNG\r\n\x1a\nrest").contains("this PNG is cut short or damaged"));
    assert!(message(b"%PDF-1.7 {\"multicard_figure\":1}").contains("has no end"));
    assert!(message(b"%PDF-1.7 {\"multicard_figure\":}endstream").contains("this PDF is cut short or damaged"));
    let newer =
        b"<svg><metadata id=\"multicard-figure\">{\"multicard_figure\":9,\"program\":\"multicard 9\"}</metadata></svg>";
    assert!(message(newer).contains("made by multicard 9"));
    let mut huge = b"<svg><metadata id=\"multicard-figure\">{\"multicard_figure\":1,\"title\":\"".to_vec();
    huge.resize(33 << 20, b'x');
    huge.extend(b"\"}</metadata></svg>");
    assert!(message(&huge).contains("more than 32 MiB of provenance"));
    let mut foreign = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut foreign, 1, 1);
    encoder.set_color(::png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(&[0]).unwrap();
    assert!(message(&foreign).contains("this PNG holds no figure"));
    let error = read_file(std::path::Path::new("/no/such/file.svg")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file.svg"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_read_or_refused() {
    let figure = preset("times");
    let provenance = figure.provenance(vec![origin()]);
    for format in [PaperFormat::Svg, PaperFormat::Pdf, PaperFormat::Png { dpi: 72 }] {
        let bytes = encode(&figure.scene(), &provenance, format).unwrap();
        for length in (0..bytes.len()).step_by(97) {
            // The part before the cut may contain the whole provenance, which then can be read.
            if let Ok(read) = read_provenance(&bytes[..length]) {
                assert_eq!(read, provenance, "{format:?} cut at {length}");
            }
        }
    }
}

#[test]
fn a_png_says_its_resolution_and_has_that_many_pixels() {
    let figure = preset("times");
    for (dpi, per_metre) in [(300, 11_811), (600, 23_622)] {
        let bytes = encode(&figure.scene(), &figure.provenance(Vec::new()), PaperFormat::Png { dpi }).unwrap();
        let reader = ::png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let info = reader.info();
        assert_eq!(info.pixel_dims.unwrap().xppu, per_metre);
        assert_eq!(f64::from(info.width), (85.0 / 25.4 * f64::from(dpi)).round());
    }
}

#[test]
fn what_cannot_be_written_says_which_file_and_why() {
    let error = write_file(std::path::Path::new("/no/such/folder/a.pdf"), b"x").unwrap_err().to_string();
    assert!(error.contains("/no/such/folder/a.pdf") && error.contains("choose a folder"), "{error}");
    let error = write_file(std::path::Path::new("/dev/full"), b"x").unwrap_err().to_string();
    assert!(error.contains("the disk is full: free some space") && !error.contains("that exists"), "{error}");
    let long = std::env::temp_dir().join("ä".repeat(200));
    let error = write_file(&long, b"x").unwrap_err().to_string();
    assert!(error.ends_with("choose a shorter name"), "{error}");
    let error = PaperFormat::of(std::path::Path::new("a.gif"), 300).unwrap_err().to_string();
    assert!(error.contains("a.gif") && error.contains(".svg, .pdf or .png"), "{error}");
    let huge = Scene { width: 1e6, height: 1e6, ..Scene::default() };
    assert!(rasterise(&huge, 10.0).unwrap_err().to_string().contains("use another resolution"));
}

#[test]
fn a_figure_of_the_first_version_opens_as_the_study_that_it_meant() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sessions/times.svg");
    let written = read_file(std::path::Path::new(file)).unwrap();
    assert_eq!((written.multicard_figure, written.cells.len()), (1, 4));
    assert_eq!(written.study, study("times").unwrap());
    let first = r#"{"multicard_figure":1,"program":"multicard 0.1.0","title":"Epoch time","spec":{"preset":"PRESET",
        "filter":"fp16 not (2","hidden":[["gpus",2],["precision","fp64"]],"measure":"step_time_s","baseline":"gpus=1",
        "log":true,"style":{"width":"page","font":"serif","palette":"grey","size_pt":9.5}},
        "sessions":[],"cells":[],"table":{},"notes":[]}"#;
    let read = |preset: &str| {
        let text = first.replace("PRESET", preset);
        read_provenance(format!("<svg><metadata id=\"multicard-figure\">{text}</metadata></svg>").as_bytes())
    };
    let expected = Study {
        filter: "fp16 \"not\" \"(2\"".to_owned(),
        hidden: vec![("gpus".into(), Level::Integer(2)), ("precision".into(), Level::text("fp64"))],
        measure: Some("step_time_s".into()),
        baseline: Some("gpus=1".to_owned()),
        log: true,
        style: Style { width: Width::Page, font: Family::Serif, palette: Palette::Grey, size_pt: 9.5 },
        ..study("scaling").unwrap()
    };
    assert_eq!(read("scaling").unwrap().study, expected);
    assert!(read("scalling").unwrap_err().to_string().contains("did you mean \"scaling\""));
}

#[test]
fn a_figures_file_carries_the_values_that_it_draws_and_its_table_the_measure_that_was_asked_for() {
    let figure = figure_of(&Study { measure: Some("energy_j".into()), ..study("times").unwrap() });
    assert!(figure.table.columns.iter().any(|column| column.key == "energy_j"));
    let drawn = figure.provenance(vec![origin()]).drawn;
    let marks: Vec<&Point> =
        figure.charts.iter().flat_map(|chart| chart.series()).flat_map(|one| &one.points).collect();
    let carried: Vec<f64> = drawn.iter().flat_map(|chart| &chart.points).map(|point| point.value).collect();
    assert!(!carried.is_empty() && drawn[0].y == "Energy (J)", "{drawn:?}");
    assert_eq!(carried, marks.iter().map(|point| point.value.median).collect::<Vec<_>>());
    let groups = &figure.charts[0].x.categories;
    assert!(drawn[0].points.iter().all(|point| groups.contains(&point.x)), "{drawn:?}");
}

/// Without this program, fonts cannot be listed.
#[test]
fn every_font_of_a_pdf_is_embedded_and_none_is_of_type_3() {
    if std::process::Command::new("pdffonts").arg("-v").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for id in ["times", "loss", "interactions", "roofline", "map"] {
        let figure = preset(id);
        let file = folder.path().join(format!("{id}.pdf"));
        let bytes = encode(&figure.scene(), &figure.provenance(Vec::new()), PaperFormat::Pdf).unwrap();
        write_file(&file, &bytes).unwrap();
        let listed = std::process::Command::new("pdffonts").arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let fonts: Vec<&str> = listed.lines().skip(2).collect();
        assert!(!fonts.is_empty(), "{id}");
        for font in fonts {
            let embedded = font.split_whitespace().rev().nth(4);
            assert!(!font.contains("Type 3") && embedded == Some("yes"), "{id}: {font}");
        }
    }
}
