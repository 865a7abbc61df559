//! Finds faults in the layout of a patch.
//!
//! Boxes and cords are compared through a spatial index, so the cost is not quadratic in the size
//! of the patch.

use std::collections::{HashMap, HashSet};

use crate::canvas::Slot;
use crate::document::{BoxId, BoxView, View};
use crate::geometry::{Point, Rect};
use crate::grid::Grid;
use crate::layout;

/// The kinds of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// A cord that goes upwards.
    Upward,
    /// Boxes that overlap.
    Overlap,
    /// A cord that crosses a box to which it is not connected.
    CordObject,
    /// Cords that overlap.
    CordCord,
    /// Boxes that overlap in presentation mode.
    PresentationOverlap,
}

impl Check {
    /// The name of the check in requests and replies.
    pub fn name(self) -> &'static str {
        match self {
            Check::Upward => "upward",
            Check::Overlap => "overlap",
            Check::CordObject => "cord_object",
            Check::CordCord => "cord_cord",
            Check::PresentationOverlap => "presentation_overlap",
        }
    }
}

/// Options of a validation.
#[derive(Clone, Debug)]
pub struct Options {
    /// If given, only findings about one of these boxes are reported.
    pub scope: Option<Vec<BoxId>>,
    /// Whether to check presentation mode. In this mode only overlaps are checked.
    pub presentation: bool,
    /// The checks to run; `None` runs all checks of the mode.
    pub checks: Option<Vec<Check>>,
    /// Tolerance in pixels.
    pub epsilon: f64,
    /// Whether to check backgrounds, panels and comments on panels too.
    pub include_background: bool,
    /// Maximum number of findings to return.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { scope: None, presentation: false, checks: None, epsilon: 2.0, include_background: false, limit: 200 }
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gravity {
    /// The layout is wrong.
    Error,
    /// The layout may be intentional.
    Warning,
}

/// A cord, identified by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CordRef {
    /// The box at the start.
    pub from: BoxId,
    /// Outlet of the box at the start.
    pub outlet: u32,
    /// The box at the end.
    pub to: BoxId,
    /// Inlet of the box at the end.
    pub inlet: u32,
}

/// A fault found by a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The check that found the fault.
    pub check: Check,
    /// Severity of the fault.
    pub gravity: Gravity,
    /// The affected boxes.
    pub objects: Vec<BoxId>,
    /// The affected cord.
    pub cord: Option<CordRef>,
    /// The second of two overlapping cords.
    pub other_cord: Option<CordRef>,
    /// Position of the fault.
    pub at: Option<Point>,
    /// Size of the fault: an area in square pixels for overlaps, else a length in pixels.
    pub amount: f64,
    /// The area of an overlap, or the rectangle of the box that a cord crosses.
    pub bounds: Option<Rect>,
}

/// The result of a validation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The faults, up to the requested limit.
    pub findings: Vec<Finding>,
    /// Number of faults per check, in the order of [`Check`].
    pub summary: [usize; 5],
    /// Whether there were more faults than the limit.
    pub truncated: bool,
    /// Number of compared pairs, as a measure of the cost.
    pub compared: u64,
}

impl Report {
    /// Whether no fault was found.
    pub fn clean(&self) -> bool {
        self.summary.iter().all(|count| *count == 0)
    }
}

/// Maximum number of findings. Without this limit, ten thousand boxes at one position would cause
/// fifty million findings.
const MOST: usize = 100_000;

struct Segment {
    cord: usize,
    from: Point,
    to: Point,
}

struct Course {
    name: CordRef,
    points: Vec<Point>,
}

struct Search<'a> {
    options: &'a Options,
    scope: Option<HashSet<BoxId>>,
    report: Report,
}

impl Search<'_> {
    fn in_scope(&self, ids: &[BoxId]) -> bool {
        self.scope.as_ref().is_none_or(|scope| ids.iter().any(|id| scope.contains(id)))
    }

    fn full(&self) -> bool {
        self.report.summary.iter().sum::<usize>() >= MOST
    }

    fn push(&mut self, finding: Finding) {
        if let Some(count) = self.report.summary.get_mut(finding.check as usize) {
            *count += 1;
        }
        if self.report.findings.len() < self.options.limit {
            self.report.findings.push(finding);
        } else {
            self.report.truncated = true;
        }
    }
}

/// Checks the layout of a view.
pub fn validate(view: &View<'_>, options: &Options) -> Report {
    let wants = |check: Check| match &options.checks {
        Some(checks) => checks.contains(&check),
        None => (check == Check::PresentationOverlap) == options.presentation,
    };
    let scope = options.scope.as_ref().map(|ids| ids.iter().copied().collect());
    let mut search = Search { options, scope, report: Report::default() };
    let everything: Vec<BoxView<'_>> = view.boxes().collect();
    let background = if options.include_background { HashSet::new() } else { background(&everything) };
    let solid = |presentation: bool| -> Vec<(Slot, Rect)> {
        let placed = everything.iter().filter(|object| !background.contains(&object.slot)).filter_map(|object| {
            let rect = if presentation {
                object.presentation_rect().filter(|_| object.in_presentation())?
            } else {
                object.rect()
            };
            (rect.w > 0.0 && rect.h > 0.0).then_some((object.slot, rect))
        });
        placed.collect()
    };
    if options.presentation {
        if wants(Check::PresentationOverlap) {
            overlaps(&mut search, &solid(true), Check::PresentationOverlap);
        }
        return search.report;
    }
    let boxes = solid(false);
    let courses: Vec<Course> = view
        .cords()
        .filter_map(|cord| {
            let name =
                CordRef { from: cord.from()?.id(), outlet: cord.outlet(), to: cord.to()?.id(), inlet: cord.inlet() };
            Some(Course { name, points: layout::cord_points(&cord)? })
        })
        .collect();
    if wants(Check::Upward) {
        courses.iter().for_each(|course| upward(&mut search, course));
    }
    if wants(Check::Overlap) {
        overlaps(&mut search, &boxes, Check::Overlap);
    }
    if wants(Check::CordObject) {
        through_boxes(&mut search, &courses, &boxes);
    }
    if wants(Check::CordCord) {
        on_each_other(&mut search, &courses);
    }
    if wants(Check::PresentationOverlap) {
        overlaps(&mut search, &solid(true), Check::PresentationOverlap);
    }
    search.report
}

/// Boxes that other boxes may cover: backgrounds, panels, and comments on a panel.
fn background(everything: &[BoxView<'_>]) -> HashSet<Slot> {
    let is_panel = |object: &BoxView<'_>| {
        object.maxclass() == "panel" || (object.view.document.format.is_pd() && object.class() == "cnv")
    };
    let mut panels = Grid::default();
    let mut rects = HashMap::new();
    for object in everything.iter().filter(|object| is_panel(object)) {
        panels.insert(object.slot, &object.rect());
        rects.insert(object.slot, object.rect());
    }
    let on_panel = |object: &BoxView<'_>| {
        panels.near(&object.rect()).iter().any(|slot| rects.get(slot).is_some_and(|rect| rect.overlaps(&object.rect())))
    };
    let behind = |object: &&BoxView<'_>| {
        object.in_background()
            || is_panel(object)
            || (object.maxclass() == "comment" && !rects.is_empty() && on_panel(object))
    };
    everything.iter().filter(behind).map(|object| object.slot).collect()
}

fn upward(search: &mut Search<'_>, course: &Course) {
    let ends = [course.name.from, course.name.to];
    if !search.in_scope(&ends) {
        return;
    }
    search.report.compared += 1;
    // Report one finding per cord: its largest rise.
    let rises = course.points.windows(2).filter_map(|pair| match pair {
        [from, to] => Some((from.y - to.y, *from)),
        _ => None,
    });
    if let Some((rise, at)) = rises.max_by(|a, b| a.0.total_cmp(&b.0))
        && rise > search.options.epsilon
    {
        let gravity = if course.points.len() == 2 { Gravity::Error } else { Gravity::Warning };
        search.push(Finding {
            check: Check::Upward,
            gravity,
            objects: ends.to_vec(),
            cord: Some(course.name),
            other_cord: None,
            at: Some(at),
            amount: rise,
            bounds: None,
        });
    }
}

fn overlaps(search: &mut Search<'_>, boxes: &[(Slot, Rect)], check: Check) {
    let mut grid = Grid::default();
    let placed = by_slot(boxes);
    for (slot, rect) in boxes {
        for near in grid.near(rect) {
            search.report.compared += 1;
            let Some(Some(other)) = placed.get(near as usize) else {
                continue;
            };
            let (x, y) = rect.penetration(other);
            let pair = [BoxId(near), BoxId(*slot)];
            if x > search.options.epsilon && y > search.options.epsilon && search.in_scope(&pair) {
                let bounds = Rect::new(rect.x.max(other.x), rect.y.max(other.y), x, y);
                search.push(Finding {
                    check,
                    gravity: Gravity::Error,
                    objects: pair.to_vec(),
                    cord: None,
                    other_cord: None,
                    at: Some(Point::new(bounds.x, bounds.y)),
                    amount: x * y,
                    bounds: Some(bounds),
                });
                if search.full() {
                    return;
                }
            }
        }
        grid.insert(*slot, rect);
    }
}

fn by_slot(boxes: &[(Slot, Rect)]) -> Vec<Option<Rect>> {
    let mut placed = vec![None; boxes.iter().map(|(slot, _)| *slot as usize + 1).max().unwrap_or(0)];
    for (slot, rect) in boxes {
        if let Some(place) = placed.get_mut(*slot as usize) {
            *place = Some(*rect);
        }
    }
    placed
}

/// Maximum length of the pieces into which a segment is split for lookups. Without the split, the
/// bounds of a long diagonal would cover half of the patch.
const PIECE: f64 = 128.0;
/// Maximum number of pieces of one segment; a very long segment is split into longer pieces.
const MOST_PIECES: f64 = 1000.0;

fn through_boxes(search: &mut Search<'_>, courses: &[Course], boxes: &[(Slot, Rect)]) {
    let mut grid = Grid::default();
    let placed = by_slot(boxes);
    let rect_of = |slot: Slot| placed.get(slot as usize).copied().flatten();
    for (slot, rect) in boxes {
        grid.insert(*slot, rect);
    }
    for course in courses {
        let mut entered: HashMap<Slot, (f64, Point)> = HashMap::new();
        for pair in course.points.windows(2) {
            let [from, to] = pair else { continue };
            let mut seen = Vec::new();
            let length = (to.x - from.x).hypot(to.y - from.y);
            let pieces = (length / PIECE).ceil().clamp(1.0, MOST_PIECES);
            let along = |share: f64| Point::new(from.x + (to.x - from.x) * share, from.y + (to.y - from.y) * share);
            for n in 0..pieces as usize {
                let (a, b) = (along(n as f64 / pieces), along((n as f64 + 1.0) / pieces));
                let area = Rect::new(a.x.min(b.x), a.y.min(b.y), (a.x - b.x).abs(), (a.y - b.y).abs());
                seen.extend(grid.near(&area));
            }
            seen.sort_unstable();
            seen.dedup();
            for slot in seen {
                if slot == course.name.from.0 || slot == course.name.to.0 {
                    continue;
                }
                search.report.compared += 1;
                let Some((entry, inside)) = rect_of(slot).and_then(|rect| clip(*from, *to, &rect)) else {
                    continue;
                };
                let place = entered.entry(slot).or_insert((0.0, entry));
                place.0 += inside;
            }
        }
        let mut entered: Vec<_> =
            entered.into_iter().filter(|(_, (inside, _))| *inside > search.options.epsilon).collect();
        entered.sort_by_key(|(slot, _)| *slot);
        for (slot, (inside, entry)) in entered {
            if !search.in_scope(&[BoxId(slot), course.name.from, course.name.to]) {
                continue;
            }
            search.push(Finding {
                check: Check::CordObject,
                gravity: Gravity::Error,
                objects: vec![BoxId(slot)],
                cord: Some(course.name),
                other_cord: None,
                at: Some(entry),
                amount: inside,
                bounds: rect_of(slot),
            });
            if search.full() {
                return;
            }
        }
    }
}

/// The part of a segment inside a rectangle (Liang-Barsky algorithm): its start point and its
/// length.
fn clip(from: Point, to: Point, rect: &Rect) -> Option<(Point, f64)> {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    for (p, q) in
        [(-dx, from.x - rect.x), (dx, rect.right() - from.x), (-dy, from.y - rect.y), (dy, rect.bottom() - from.y)]
    {
        if p == 0.0 {
            if q <= 0.0 {
                return None;
            }
        } else if p < 0.0 {
            enter = enter.max(q / p);
        } else {
            leave = leave.min(q / p);
        }
    }
    (enter < leave).then(|| (Point::new(from.x + dx * enter, from.y + dy * enter), (leave - enter) * dx.hypot(dy)))
}

/// Segments are grouped into rows; this is the number of rows per pixel. Parallel lines that are
/// less than half a pixel apart look like one line.
const SAME_LINE: f64 = 2.0;

fn on_each_other(search: &mut Search<'_>, courses: &[Course]) {
    let mut rows: HashMap<(bool, i64), Vec<Segment>> = HashMap::new();
    for (cord, course) in courses.iter().enumerate() {
        for pair in course.points.windows(2) {
            let [a, b] = pair else { continue };
            let upright = (a.x - b.x).abs() < 0.5;
            let level = (a.y - b.y).abs() < 0.5;
            if upright == level {
                continue;
            }
            let (line, start, end) =
                if upright { (a.x, a.y.min(b.y), a.y.max(b.y)) } else { (a.y, a.x.min(b.x), a.x.max(b.x)) };
            let (from, to) = (Point::new(start, line), Point::new(end, line));
            rows.entry((upright, (line * SAME_LINE).round() as i64)).or_default().push(Segment { cord, from, to });
        }
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(key, _)| *key);
    let mut reported = HashSet::new();
    for ((upright, _), mut row) in rows {
        row.sort_by(|a, b| a.from.x.total_cmp(&b.from.x));
        let mut open: Vec<&Segment> = Vec::new();
        for segment in &row {
            open.retain(|other| other.to.x > segment.from.x);
            for other in &open {
                search.report.compared += 1;
                let shared = segment.to.x.min(other.to.x) - segment.from.x;
                let (Some(a), Some(b)) = (courses.get(other.cord), courses.get(segment.cord)) else {
                    continue;
                };
                let ends = [a.name.from, a.name.to, b.name.from, b.name.to];
                let counts = segment.cord != other.cord && shared > search.options.epsilon && search.in_scope(&ends);
                if counts && reported.insert((segment.cord.min(other.cord), segment.cord.max(other.cord))) {
                    let at = if upright { Point::new(segment.from.y, segment.from.x) } else { segment.from };
                    let finding = Finding {
                        check: Check::CordCord,
                        gravity: Gravity::Warning,
                        objects: Vec::new(),
                        cord: Some(a.name),
                        other_cord: Some(b.name),
                        at: Some(at),
                        amount: shared,
                        bounds: None,
                    };
                    search.push(finding);
                    if search.full() {
                        return;
                    }
                }
            }
            open.push(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_gives_entry_and_length() {
        let rect = Rect::new(10.0, 10.0, 20.0, 20.0);
        let (entry, inside) = clip(Point::new(20.0, 0.0), Point::new(20.0, 100.0), &rect).unwrap();
        assert_eq!((entry, inside), (Point::new(20.0, 10.0), 20.0));
        assert!(clip(Point::new(0.0, 0.0), Point::new(5.0, 50.0), &rect).is_none());
        // A segment along the edge does not cross the rectangle.
        assert!(clip(Point::new(10.0, 0.0), Point::new(10.0, 50.0), &rect).is_none());
    }
}
