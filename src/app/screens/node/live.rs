//! Current load of the machine, as bars. Unknown values are “–”, never 0.

use eframe::egui::{Color32, Grid, Response, Role, Sense, Ui, Vec2, WidgetInfo};

use crate::app::theme::palette;
use crate::app::widgets::muted;
use crate::app::words::bytes_text;
use crate::plan::{Gpu, Node};
use crate::protocol::{GpuSample, Sample, throttle_words};

const BAR: Vec2 = Vec2::new(160.0, 10.0);
/// The smallest share with which a bar shows a warning.
const NEARLY_FULL: f64 = 0.9;

/// One line: name, bar and value.
pub struct Line<'a> {
    /// Prefix of the bar's accessible name.
    pub owner: &'a str,
    pub name: &'a str,
    /// The filled share of the bar, from 0 to 1.
    pub share: Option<f64>,
    pub text: Option<String>,
    /// Whether a nearly full bar warns.
    pub warns: bool,
    pub hover: &'a str,
}

fn line_ui(ui: &mut Ui, line: &Line<'_>) {
    ui.label(muted(ui, line.name)).on_hover_text(line.hover);
    bar_ui(ui, line).on_hover_text(line.hover);
    ui.label(line.text.as_deref().unwrap_or("–"));
    ui.end_row();
}

/// Draws a bar.
pub fn bar_ui(ui: &mut Ui, line: &Line<'_>) -> Response {
    let (rect, response) = ui.allocate_exact_size(BAR, Sense::hover());
    let palette = palette(ui.visuals());
    let painter = ui.painter();
    painter.rect_filled(rect, 3, ui.visuals().widgets.inactive.bg_fill);
    if let Some(share) = line.share.filter(|share| share.is_finite()) {
        let mut done = rect;
        done.set_width(rect.width() * share.clamp(0.0, 1.0) as f32);
        let color: Color32 = if line.warns && share >= NEARLY_FULL { palette.warning } else { palette.accent };
        painter.rect_filled(done, 3, color);
    }
    let name = format!("{} {}", line.owner, line.name);
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::ProgressIndicator, true, &name);
        info.value = line.share;
        info.current_text_value = Some(line.text.clone().unwrap_or_else(|| "–".to_owned()));
        info
    });
    response
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Bars of the host.
pub fn host_ui(ui: &mut Ui, node: &Node, sample: Option<&Sample>) {
    let host = sample.map(|sample| sample.host.clone()).unwrap_or_default();
    let cpus = f64::from(node.cpus.max(1));
    let memory_bytes = node.memory_bytes as f64;
    let line = |name, share, text, warns, hover| Line { owner: "Host", name, share, text, warns, hover };
    Grid::new("node-host-live").num_columns(3).spacing([16.0, 4.0]).show(ui, |ui| {
        let busy = host.cpus_busy;
        let text = busy.map(|busy| format!("{busy:.1} of {cpus}"));
        let hover = "CPUs kept busy by all processes, among the CPUs that this process may use";
        line_ui(ui, &line("CPUs busy", busy.map(|busy| busy / cpus), text, false, hover));
        let used = host.memory_used_bytes.map(|bytes| bytes as f64);
        let text = used.map(|used| format!("{} of {}", bytes_text(used), bytes_text(memory_bytes)));
        let share = used.filter(|_| memory_bytes > 0.0).map(|used| used / memory_bytes);
        line_ui(
            ui,
            &line(
                "Memory",
                share,
                text,
                true,
                "Memory in use by all processes, of the memory that this process may use",
            ),
        );
        for (name, rate) in [("Disk read", host.disk_read_bytes_per_s), ("Disk write", host.disk_write_bytes_per_s)] {
            ui.label(muted(ui, name));
            ui.label("");
            ui.label(rate.map_or("–".to_owned(), |rate| format!("{}/s", bytes_text(rate))));
            ui.end_row();
        }
    });
}

/// Bars of one GPU.
pub fn gpu_ui(ui: &mut Ui, gpu: &Gpu, sample: Option<&GpuSample>) {
    let none = GpuSample::default();
    let known = sample.unwrap_or(&none);
    let owner = format!("GPU {}", gpu.index);
    let line = |name, share, text, warns, hover| Line { owner: &owner, name, share, text, warns, hover };
    Grid::new(("node-gpu", &gpu.uuid)).num_columns(3).spacing([16.0, 4.0]).show(ui, |ui| {
        let all = gpu.memory_bytes as f64;
        let used = known.memory_used_bytes.map(|bytes| bytes as f64);
        let text = used.map(|used| format!("{} of {}", bytes_text(used), bytes_text(all)));
        let share = used.filter(|_| all > 0.0).map(|used| used / all);
        line_ui(ui, &line("Memory", share, text, true, "In use by all processes (NVML)"));
        line_ui(
            ui,
            &line(
                "Busy",
                known.busy,
                known.busy.map(percent),
                false,
                "Share of time in which a kernel was running (NVML)",
            ),
        );
        let activity = known.sm_activity;
        let hover = "Share of SM cycles with a resident warp (GPM, H100 and newer)";
        line_ui(ui, &line("SM activity", activity, activity.map(percent), false, hover));
        let tensor = known.tensor_activity;
        let hover = "Share of cycles with tensor cores active (GPM, H100 and newer)";
        line_ui(ui, &line("Tensor cores", tensor, tensor.map(percent), false, hover));
        let mhz = |clock: Option<u32>| clock.map_or("–".to_owned(), |clock| format!("{clock} MHz"));
        let clocks_known = known.sm_clock_mhz.is_some() || known.memory_clock_mhz.is_some();
        let throttled = match known.throttle_reasons.as_slice() {
            [] if clocks_known => "none".to_owned(),
            [] => "–".to_owned(),
            reasons => throttle_words(reasons),
        };
        let texts = [
            ("Power", known.power_w.map_or("–".to_owned(), |power_w| format!("{power_w:.0} W"))),
            ("Temperature", known.temperature_c.map_or("–".to_owned(), |degrees| format!("{degrees:.0} °C"))),
            ("Clocks", format!("SM {}, memory {}", mhz(known.sm_clock_mhz), mhz(known.memory_clock_mhz))),
            ("Throttled by", throttled),
        ];
        for (name, text) in texts {
            ui.label(muted(ui, name));
            let slow = name == "Throttled by" && !known.throttle_reasons.is_empty();
            if slow {
                ui.colored_label(palette(ui.visuals()).warning, text);
            } else {
                ui.label(text);
            }
            ui.end_row();
        }
    });
}
