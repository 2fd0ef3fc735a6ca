//! Charts: a line for each row of the table, a mark for each runtime, on a logarithmic axis.
//!
//! They are SVG without a background, with a style sheet of their own for text and lines, so that
//! they can be read on a light page and on a dark one. Runtimes differ in shape as well as in
//! colour.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::BoxError;

const WIDTH: u32 = 860;
const LINE_HEIGHT: i32 = 24;
/// Room for the names of the rows, and for the legend and the axis.
const LEFT: i32 = 210;
const RIGHT: i32 = 30;
const TOP: i32 = 34;
const BOTTOM: i32 = 46;

/// What the style sheet below makes light or dark.
const TEXT: RGBColor = RGBColor(1, 2, 3);
const GRID: RGBColor = RGBColor(3, 2, 1);
const STYLE: &str = "<style>\
    text{fill:#24292f;font-family:sans-serif}\
    [stroke=\"#030201\"]{stroke:#d0d7de}\
    @media(prefers-color-scheme:dark){text{fill:#d1d7e0}[stroke=\"#030201\"]{stroke:#3d444d}}\
    </style>";

/// What a mark looks like.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Disc,
    Ring,
    Square,
    Cross,
    Triangle,
}

/// The runtimes, in the order of the legend. Variants of one have its shape.
const MARKS: &[(&str, Shape, RGBColor)] = &[
    ("ws", Shape::Disc, RGBColor(217, 72, 15)),
    ("ws-nosysmon", Shape::Disc, RGBColor(230, 150, 90)),
    ("tokio", Shape::Square, RGBColor(47, 129, 247)),
    ("tokio-main", Shape::Square, RGBColor(130, 180, 250)),
    ("tokio-handoff", Shape::Square, RGBColor(20, 80, 180)),
    ("tokio-rayon", Shape::Square, RGBColor(110, 119, 129)),
    ("smol", Shape::Cross, RGBColor(45, 164, 78)),
    ("go", Shape::Triangle, RGBColor(0, 160, 170)),
    ("ghc", Shape::Ring, RGBColor(137, 87, 229)),
    ("rayon", Shape::Triangle, RGBColor(191, 135, 0)),
    ("chili", Shape::Cross, RGBColor(207, 34, 110)),
];

/// A line of the chart.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    /// Runtimes and where they are.
    pub(crate) marks: Vec<(&'a str, f64)>,
}

/// Draws the lines over an axis that `axis` describes. Nothing of no lines.
pub(crate) fn draw(axis: &str, lines: &[Line<'_>]) -> Result<Option<String>, BoxError> {
    let values = || lines.iter().flat_map(|line| &line.marks).map(|mark| mark.1);
    let (low, high) = values().fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return Ok(None);
    }
    let scale = Scale::over(low, high);
    let height = TOP + BOTTOM + LINE_HEIGHT * i32::try_from(lines.len())?;
    let mut svg = String::new();
    {
        let area =
            SVGBackend::with_string(&mut svg, (WIDTH, u32::try_from(height)?)).into_drawing_area();
        draw_axis(&area, &scale, axis, height)?;
        draw_legend(&area, lines)?;
        for (line, y) in lines
            .iter()
            .zip((0..).map(|n| TOP + n * LINE_HEIGHT + LINE_HEIGHT / 2))
        {
            let place = Pos::new(HPos::Right, VPos::Center);
            area.draw(&Text::new(
                line.name.to_owned(),
                (LEFT - 12, y),
                text(16, place),
            ))?;
            area.draw(&PathElement::new(vec![(LEFT, y), (right(), y)], GRID))?;
            for (runtime, value) in &line.marks {
                mark(&area, runtime, (scale.x(*value), y))?;
            }
        }
        area.present()?;
    }
    // The style sheet goes right behind the opening tag.
    let (open, rest) = svg.split_once(">\n").ok_or("no SVG was drawn")?;
    Ok(Some(format!("{open}>\n{STYLE}\n{rest}")))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn right() -> i32 {
    WIDTH as i32 - RIGHT
}

fn text(size: u32, place: Pos) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&TEXT).pos(place)
}

/// A logarithmic axis from one power of ten, or its double or half, to another.
#[derive(Debug)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(low: f64, high: f64) -> Self {
        Scale {
            low: ticks_from(low / 1.1).0,
            high: ticks_from(high * 1.1).1,
        }
    }

    fn x(&self, value: f64) -> i32 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        LEFT + (f64::from(right() - LEFT) * part).round() as i32
    }

    fn ticks(&self) -> Vec<f64> {
        let mut ticks = vec![self.low];
        while let Some(last) = ticks
            .last()
            .copied()
            .filter(|last| *last < self.high * 0.999)
        {
            ticks.push(ticks_from(last * 1.001).1);
        }
        // Only the powers of ten, where there would be too many.
        if ticks.len() > 12 {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-6);
        }
        ticks
    }
}

/// The next 1, 2 or 5 times a power of ten, below and above.
fn ticks_from(value: f64) -> (f64, f64) {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let above = steps
        .iter()
        .position(|step| *step > value)
        .unwrap_or(3)
        .max(1);
    (steps[above - 1], steps[above])
}

fn draw_axis(area: &Area<'_>, scale: &Scale, axis: &str, height: i32) -> Result<(), BoxError> {
    let bottom = height - BOTTOM;
    for tick in scale.ticks() {
        let x = scale.x(tick);
        area.draw(&PathElement::new(vec![(x, TOP), (x, bottom)], GRID))?;
        let place = Pos::new(HPos::Center, VPos::Top);
        area.draw(&Text::new(short(tick), (x, bottom + 6), text(15, place)))?;
    }
    let place = Pos::new(HPos::Center, VPos::Top);
    let middle = i32::midpoint(LEFT, right());
    area.draw(&Text::new(
        axis.to_owned(),
        (middle, bottom + 24),
        text(15, place),
    ))?;
    Ok(())
}

fn short(tick: f64) -> String {
    // Rounding errors of powers of ten are not to be seen.
    let rounded: f64 = format!("{tick:.1e}").parse().unwrap_or(tick);
    rounded.to_string()
}

fn draw_legend(area: &Area<'_>, lines: &[Line<'_>]) -> Result<(), BoxError> {
    let mut x = LEFT;
    for (runtime, ..) in MARKS {
        let used = |line: &Line<'_>| line.marks.iter().any(|mark| mark.0 == *runtime);
        if lines.iter().any(used) {
            mark(area, runtime, (x + 6, 14))?;
            let place = Pos::new(HPos::Left, VPos::Center);
            area.draw(&Text::new(
                (*runtime).to_owned(),
                (x + 18, 14),
                text(16, place),
            ))?;
            x += 40 + 8 * i32::try_from(runtime.len())?;
        }
    }
    Ok(())
}

/// A mark in the shape and the colour of its runtime.
fn mark(area: &Area<'_>, runtime: &str, (x, y): (i32, i32)) -> Result<(), BoxError> {
    let known = MARKS.iter().find(|mark| mark.0 == runtime);
    let (shape, colour) = known.map_or((Shape::Ring, GRID), |mark| (mark.1, mark.2));
    let (filled, stroke) = (colour.filled(), colour.stroke_width(2));
    match shape {
        Shape::Disc => area.draw(&Circle::new((x, y), 6, filled))?,
        Shape::Ring => area.draw(&Circle::new((x, y), 5, stroke))?,
        Shape::Square => area.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], filled))?,
        Shape::Cross => area.draw(&Cross::new((x, y), 5, stroke))?,
        Shape::Triangle => area.draw(&TriangleMarker::new((x, y), 7, filled))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Line, MARKS, Scale, draw};
    use crate::peers;

    #[test]
    fn scale_is_logarithmic_and_holds_its_ends() {
        let scale = Scale::over(0.3, 40.0);
        assert_eq!(scale.ticks(), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(scale.x(1.0) - scale.x(0.5), scale.x(10.0) - scale.x(5.0));
    }

    #[test]
    fn chart_has_both_styles_and_all_names() {
        let marks = vec![("ws", 1.0), ("tokio", 3.0)];
        let line = Line {
            name: "a_row",
            marks,
        };
        let svg = draw("times", &[line])
            .expect("it is drawn")
            .expect("it is not empty");
        for part in [
            "<svg",
            "prefers-color-scheme:dark",
            "a_row",
            "tokio",
            "times",
            "</svg>",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(draw("times", &[]).expect("it is no error").is_none());
    }

    #[test]
    fn every_runtime_has_a_mark() {
        for name in peers::known() {
            assert!(MARKS.iter().any(|(mark, ..)| *mark == name), "{name}");
        }
    }
}
