//! Plots as SVG: lines with marks, and fields of a heat map.
//!
//! Colours are those of M. Okabe and K. Ito ("Color universal design", 2008), which people with colour-blindness tell apart, and each line
//! has a mark of its own besides. Heat maps go from dark blue to yellow, evenly in lightness, as cividis does (J. Nuñez, C. Anderton, R. Renslow, 2018). The
//! page's style sheet replaces the colours of lines and letters where the reader's background is dark.

use super::axis::Axis;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, Circle, Color, Cross, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, PathElement, Polygon,
    RGBColor, Rectangle, SVGBackend, Text, TextStyle,
};
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Display;
use std::ops::Range;

const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
const MUTED: RGBColor = RGBColor(0x57, 0x60, 0x6a);
const RULE: RGBColor = RGBColor(0xd0, 0xd7, 0xde);
/// Blue, vermilion, green, orange, purple, sky.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
];
const HEAT: [(f64, f64, f64); 5] =
    [(0.0, 32.0, 77.0), (65.0, 77.0, 107.0), (124.0, 123.0, 120.0), (188.0, 175.0, 111.0), (255.0, 234.0, 70.0)];
const DARK_TEXT: RGBColor = RGBColor(0x10, 0x10, 0x10);
const LIGHT_TEXT: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Width of a plot that stands alone, and of one with another beside it.
pub const WIDE: u32 = 760;
/// See [`WIDE`].
pub const HALF: u32 = 600;
/// Pixels that a letter takes, about.
const LETTER: usize = 7;
/// Pixels that a letter of a note takes, about.
const SMALL_LETTER: f64 = 5.9;

/// Lines over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// Settings, size of the data.
    pub note: String,
    /// To the right.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Drawn one over the other.
    pub series: Vec<Series>,
    /// A point with a ring about it, and what that is.
    pub ringed: Option<(f64, f64, String)>,
    /// Pixels.
    pub width: u32,
}

/// One of the lines.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is, for the legend.
    pub name: String,
    /// Whether the points are joined.
    pub joined: Joined,
    /// Whether points have marks.
    pub marked: bool,
    /// Values, and what is written beside them.
    pub points: Vec<(f64, f64, String)>,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Not at all.
    No,
    /// By straight lines.
    Straight,
    /// At the height of the point before, up to the next.
    Steps,
}

/// A field of values.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What it shows.
    pub title: String,
    /// Settings, size of the data.
    pub note: String,
    /// What columns are.
    pub across: String,
    /// What rows are.
    pub down: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// By row, then column: how bright from 0 to 1, and what it says. `None`: there is no value.
    pub fields: Vec<Option<(f64, String)>>,
    /// What the ends of the colours stand for.
    pub ends: (String, String),
    /// Row and column of a field with a frame.
    pub framed: Option<(usize, usize)>,
    /// Pixels.
    pub width: u32,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (place - self.range.0) / (self.range.1 - self.range.0);
        from + (f64::from(to - from) * share).round() as i32
    }
    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.iter().map(|(at, _)| *at).collect() }
    }
    fn range(&self) -> Range<f64> {
        self.range.0..self.range.1
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(place: &f64) -> String {
        place.to_string()
    }
    fn format_ext(&self, place: &f64) -> String {
        self.ticks.iter().find(|(tick, _)| tick == place).map_or_else(String::new, |(_, text)| text.clone())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), String>;

fn failed(error: impl Display) -> String {
    error.to_string()
}

fn letters(size: f64, colour: RGBColor, h: HPos, v: VPos) -> TextStyle<'static> {
    // The backend makes letters smaller by this.
    let mut style = TextStyle::from(("sans-serif", size * 1.24).into_font());
    (style.color, style.pos) = (colour.to_backend_color(), Pos::new(h, v));
    style
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), style: &TextStyle<'static>) -> Drawn {
    area.draw(&Text::new(text.to_owned(), at, style.clone())).map_err(failed)
}

fn colour(number: usize) -> RGBColor {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or(INK)
}

/// Lines of a note, broken between words.
fn lines(note: &str, width: u32) -> Vec<String> {
    let most = (f64::from(width - 24) / SMALL_LETTER) as usize;
    let mut out = vec![String::new()];
    for word in note.split(' ') {
        let Some(line) = out.last_mut() else { continue };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > most {
            out.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out
}

/// Writes title and note. Gives where they end.
fn head(area: &Area<'_>, title: &str, note: &str, width: u32) -> Result<i32, String> {
    let mut bold = letters(15.0, INK, HPos::Left, VPos::Top);
    bold.font = bold.font.style(FontStyle::Bold);
    write(area, title, (12, 10), &bold)?;
    let mut y = 33;
    for line in lines(note, width) {
        write(area, &line, (12, y), &letters(11.5, MUTED, HPos::Left, VPos::Top))?;
        y += 15;
    }
    Ok(y)
}

/// Draws on an area of a height, and gives the SVG.
fn svg((width, height): (u32, u32), title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut out = String::new();
    {
        let area = SVGBackend::with_string(&mut out, (width, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(failed)?;
    }
    let mut label = String::new();
    super::escape(title, &mut label);
    Ok(out.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
}

/// The mark of a series, about a point.
fn mark(area: &Area<'_>, number: usize, (x, y): (i32, i32)) -> Drawn {
    let style = colour(number).filled();
    match number % 4 {
        0 => area.draw(&Circle::new((x, y), 4, style)),
        1 => area.draw(&Polygon::new([(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], style)),
        2 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], style)),
        _ => area.draw(&Cross::new((x, y), 4, colour(number).stroke_width(2))),
    }
    .map_err(failed)
}

fn ring(area: &Area<'_>, at: (i32, i32)) -> Drawn {
    area.draw(&Circle::new(at, 8, INK.stroke_width(2))).map_err(failed)
}

impl Plot {
    /// The plot as SVG.
    ///
    /// # Errors
    /// What the backend says; there is nothing that it is known to refuse.
    pub fn svg(&self) -> Result<String, String> {
        let rows = self.legend();
        let height =
            self.width * 46 / 100 + 40 + 15 * lines(&self.note, self.width).len() as u32 + 17 * rows.len() as u32;
        svg((self.width, height), &self.title, |area| self.draw(area, &rows))
    }

    /// Rows of the legend: numbers of series with where they begin; one more than there are for the ring.
    fn legend(&self) -> Vec<Vec<(usize, i32)>> {
        let mut rows: Vec<Vec<(usize, i32)>> = Vec::new();
        let mut x = i32::MAX;
        let names = self.series.iter().map(|series| &series.name).chain(self.ringed.iter().map(|(_, _, name)| name));
        for (number, name) in names.enumerate() {
            let wide = 34 + (name.chars().count() * LETTER) as i32;
            if x.saturating_add(wide) > self.width as i32 {
                rows.push(Vec::new());
                x = 14;
            }
            rows.last_mut().into_iter().for_each(|row| row.push((number, x)));
            x += wide + 10;
        }
        rows
    }

    fn draw(&self, area: &Area<'_>, legend: &[Vec<(usize, i32)>]) -> Drawn {
        let mut y = head(area, &self.title, &self.note, self.width)? + 9;
        for row in legend {
            for (number, x) in row {
                let Some(series) = self.series.get(*number) else {
                    let (_, _, name) = self.ringed.as_ref().ok_or_else(|| "no ring".to_owned())?;
                    ring(area, (x + 11, y))?;
                    write(area, name, (x + 28, y), &letters(11.5, INK, HPos::Left, VPos::Center))?;
                    continue;
                };
                if series.joined != Joined::No {
                    let path = PathElement::new([(*x, y), (x + 22, y)], colour(*number).stroke_width(2));
                    area.draw(&path).map_err(failed)?;
                }
                if series.marked {
                    mark(area, *number, (x + 11, y))?;
                }
                write(area, &series.name, (x + 28, y), &letters(11.5, INK, HPos::Left, VPos::Center))?;
            }
            y += 17;
        }
        let mut chart = ChartBuilder::on(area)
            .margin_top(y + 2)
            .margin_right(26)
            .margin_bottom(8)
            .margin_left(8)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .max_light_lines(0)
            .bold_line_style(RULE)
            .axis_style(MUTED)
            .label_style(letters(11.5, INK, HPos::Left, VPos::Top))
            .axis_desc_style(letters(12.0, MUTED, HPos::Left, VPos::Top))
            .x_desc(self.x.title.as_str())
            .y_desc(self.y.title.as_str())
            .draw()
            .map_err(failed)?;
        let mut written: Vec<(i32, i32, i32)> = Vec::new();
        for (number, series) in self.series.iter().enumerate() {
            let places: Vec<(f64, f64)> =
                series.points.iter().map(|(x, y, _)| (self.x.place(*x), self.y.place(*y))).collect();
            let path: Vec<(f64, f64)> = match series.joined {
                Joined::No => Vec::new(),
                Joined::Straight => places.clone(),
                Joined::Steps => {
                    let corners = places.windows(2).filter_map(|pair| match pair {
                        [(_, before), (x, _)] => Some((*x, *before)),
                        _ => None,
                    });
                    let corners: Vec<_> = corners.collect();
                    let mut path: Vec<_> = places.first().copied().into_iter().collect();
                    path.extend(corners.into_iter().zip(places.iter().skip(1)).flat_map(|(corner, at)| [corner, *at]));
                    path
                }
            };
            if path.len() > 1 {
                let _ = chart.draw_series(LineSeries::new(path, colour(number).stroke_width(2))).map_err(failed)?;
            }
            let inside = chart.plotting_area();
            for ((_, _, text), place) in series.points.iter().zip(places) {
                let at = inside.map_coordinate(&place);
                if series.marked {
                    mark(area, number, at)?;
                }
                let wide = (text.chars().count() * LETTER) as i32;
                let right = at.0 > self.width as i32 - 40 - wide;
                let (h, x) = if right { (HPos::Right, at.0 - 7) } else { (HPos::Left, at.0 + 7) };
                let (from, y) = (if right { x - wide } else { x }, at.1 + 9);
                // What would lie over another text is left out.
                let free =
                    |(x, upto, other): &(i32, i32, i32)| from > *upto || from + wide < *x || (y - other).abs() > 12;
                if !text.is_empty() && written.iter().all(free) {
                    write(area, text, (x, y), &letters(10.5, INK, h, VPos::Center))?;
                    written.push((from, from + wide, y));
                }
            }
        }
        if let Some((x, y, _)) = &self.ringed {
            ring(area, chart.plotting_area().map_coordinate(&(self.x.place(*x), self.y.place(*y))))?;
        }
        Ok(())
    }
}

fn heat(bright: f64) -> RGBColor {
    let steps = (HEAT.len() - 1) as f64;
    let at = bright.clamp(0.0, 1.0) * steps;
    let step = (at as usize).min(HEAT.len() - 2);
    let (Some(low), Some(high)) = (HEAT.get(step), HEAT.get(step + 1)) else { return MUTED };
    let between = at - step as f64;
    let mix = |a: f64, b: f64| (a + (b - a) * between).round() as u8;
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

impl Heat {
    /// The heat map as SVG.
    ///
    /// # Errors
    /// As [`Plot::svg`].
    pub fn svg(&self) -> Result<String, String> {
        let field = self.field_height();
        let height = 90 + 15 * lines(&self.note, self.width).len() as i32 + field * self.rows.len() as i32;
        svg((self.width, u32::try_from(height).unwrap_or(400)), &self.title, |area| self.draw(area))
    }

    fn field_height(&self) -> i32 {
        (360 / self.rows.len().max(1) as i32).clamp(6, 26)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let (left, right, tall) = (86, 70, self.field_height());
        let top = head(area, &self.title, &self.note, self.width)? + 20;
        let columns = self.columns.len().max(1) as i32;
        let inner = self.width as i32 - left - right;
        let x_of = |column: usize| left + inner * column as i32 / columns;
        let y_of = |row: usize| top + tall * row as i32;
        let wide = inner / columns;
        let size = if wide >= 56 { 11.0 } else { 9.0 };
        write(area, &self.down, (12, top - 6), &letters(11.5, MUTED, HPos::Left, VPos::Bottom))?;
        for (row, name) in self.rows.iter().enumerate() {
            if row % (14 / tall + 1).max(1) as usize == 0 {
                let style = letters(11.0, INK, HPos::Right, VPos::Center);
                write(area, name, (left - 6, y_of(row) + tall / 2), &style)?;
            }
        }
        let bottom = y_of(self.rows.len());
        let every = (44 / wide.max(1) + 1).max(1) as usize;
        for (column, name) in self.columns.iter().enumerate().step_by(every) {
            let at = ((x_of(column) + x_of(column + 1)) / 2, bottom + 5);
            write(area, name, at, &letters(11.0, INK, HPos::Center, VPos::Top))?;
        }
        let middle = (left + inner / 2, bottom + 22);
        write(area, &self.across, middle, &letters(11.5, MUTED, HPos::Center, VPos::Top))?;
        for (at, field) in self.fields.iter().enumerate() {
            let (row, column) = (at / self.columns.len().max(1), at % self.columns.len().max(1));
            let (from, to) = ((x_of(column), y_of(row)), (x_of(column + 1) - 1, y_of(row) + tall - 1));
            let Some((bright, text)) = field else { continue };
            area.draw(&Rectangle::new([from, to], heat(*bright).filled())).map_err(failed)?;
            if wide >= 8 * LETTER as i32 - 20 && tall >= 13 {
                let over = if *bright > 0.45 { DARK_TEXT } else { LIGHT_TEXT };
                let at = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
                write(area, text, at, &letters(size, over, HPos::Center, VPos::Center))?;
            }
        }
        if let Some((row, column)) = self.framed {
            let corners = [(x_of(column) - 1, y_of(row) - 1), (x_of(column + 1), y_of(row) + tall)];
            let [(x0, y0), (x1, y1)] = corners;
            let frame =
                PathElement::new([(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)], COLOURS[1].stroke_width(3));
            area.draw(&frame).map_err(failed)?;
        }
        self.key(area, (self.width as i32 - right + 14, top), (bottom - top).max(60))
    }

    /// What the colours stand for.
    fn key(&self, area: &Area<'_>, (x, y): (i32, i32), tall: i32) -> Drawn {
        let steps = 24;
        for step in 0..steps {
            let bright = f64::from(steps - 1 - step) / f64::from(steps - 1);
            let (from, to) = (y + tall * step / steps, y + tall * (step + 1) / steps);
            area.draw(&Rectangle::new([(x, from), (x + 10, to)], heat(bright).filled())).map_err(failed)?;
        }
        write(area, &self.ends.1, (x - 4, y - 4), &letters(10.0, INK, HPos::Left, VPos::Bottom))?;
        write(area, &self.ends.0, (x - 4, y + tall + 4), &letters(10.0, INK, HPos::Left, VPos::Top))
    }
}
