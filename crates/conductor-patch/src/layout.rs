//! Computes positions: nubs (the drawn inlets and outlets), cord points, free places, alignment.
//! The functions propose changes but do not apply them.
//!
//! Not here: finding faults (`validate`).

use crate::document::{BoxId, BoxView, CordView, View};
use crate::geometry::{Point, Rect};
use crate::grid::Grid;

/// Distance in pixels of the first and the last nub from the left and right side of a Max box.
const MAX_INSET: f64 = 9.5;
/// Half the width of a nub in Pd. The first and the last nub touch the sides of the box.
const PD_INSET: f64 = 3.5;

pub(crate) fn first_nub(is_pd: bool) -> f64 {
    if is_pd { PD_INSET } else { MAX_INSET }
}

/// Position of an inlet (on the top edge) or outlet (on the bottom edge) of a box; `None` if the
/// box has no such port.
///
/// If the number of ports is unknown, the requested port is treated as the last one.
pub fn nub(object: &BoxView<'_>, outlet: bool, index: u32) -> Option<Point> {
    let facts = &object.face.facts;
    let stated = if outlet { facts.outlets } else { facts.inlets };
    let count = stated.or_else(|| {
        let ports = object.ports();
        if outlet { ports.outlets } else { ports.inlets }
    });
    let count = match count {
        Some(count) if index < count => count,
        Some(_) => return None,
        None => index + 1,
    };
    Some(place(object, outlet, index, count))
}

fn place(object: &BoxView<'_>, outlet: bool, index: u32, count: u32) -> Point {
    let rect = object.rect();
    let inset = first_nub(object.view.document.format.is_pd());
    let span = (rect.w - 2.0 * inset).max(0.0);
    // If the first inlet is not drawn, the other inlets move one position to the left.
    let shifted = !outlet && count > 1 && object.face.facts.first_inlet_hidden;
    let (index, count) = if shifted { (index.saturating_sub(1), count - 1) } else { (index, count) };
    let share = if count > 1 { f64::from(index) / f64::from(count - 1) } else { 0.0 };
    Point::new(rect.x + inset + span * share, if outlet { rect.bottom() } else { rect.y })
}

/// Positions of all inlets or outlets of a box; empty when their number is unknown.
pub fn nubs(object: &BoxView<'_>, outlet: bool) -> Vec<Point> {
    let ports = object.ports();
    let count = if outlet { ports.outlets } else { ports.inlets };
    (0..count.unwrap_or(0).min(4096)).map(|index| place(object, outlet, index, count.unwrap_or(0))).collect()
}

/// The points of a cord from outlet to inlet; `None` if the cord is dangling.
pub fn cord_points(cord: &CordView<'_>) -> Option<Vec<Point>> {
    let (from, to) = (cord.from()?, cord.to()?);
    let mut points = vec![nub(&from, true, cord.outlet())?];
    points.extend(cord.midpoints());
    points.push(nub(&to, false, cord.inlet())?);
    Some(points)
}

/// Minimum gap between a new box and other boxes.
const GAP: f64 = 8.0;
/// Distance between two rings of candidate positions around the requested point.
const RING: f64 = 15.0;
/// Radius of the largest ring.
const REACH: f64 = 4000.0;
/// Distance from the rightmost box, if no point was requested or no free place was found.
const MARGIN: f64 = 50.0;

/// A free place for a new box.
#[derive(Clone, Debug, PartialEq)]
pub struct FreePlace {
    /// Top-left corner of the place.
    pub position: Point,
    /// The rule that found the place.
    pub rationale: String,
}

/// Finds a place of the given size that does not overlap any box, near a point if one is given.
pub fn free_place(view: &View<'_>, width: f64, height: f64, near_x: Option<f64>, near_y: Option<f64>) -> FreePlace {
    let mut grid = Grid::default();
    let mut rects = std::collections::HashMap::new();
    let mut rightmost = f64::NEG_INFINITY;
    for object in view.boxes().filter(|object| object.rect().w > 0.0) {
        let rect = object.rect();
        rightmost = rightmost.max(rect.right());
        grid.insert(object.slot, &rect);
        rects.insert(object.slot, rect);
    }
    let empty = rects.is_empty();
    let (anchor, rule) = match (near_x, near_y, empty) {
        (None, None, true) => (Point::new(50.0, 50.0), "at the start of the empty patch"),
        (None, None, false) => {
            (Point::new((rightmost + MARGIN).max(0.0), 50.0), "to the right of existing objects with a 50 px margin")
        }
        (x, y, _) => (Point::new(x.unwrap_or(50.0).max(0.0), y.unwrap_or(50.0).max(0.0)), "at the requested point"),
    };
    // A place is free if every box is at least the gap away, horizontally or vertically.
    let free = |x: f64, y: f64| {
        if x < 0.0 || y < 0.0 {
            return false;
        }
        let wanted = Rect::new(x, y, width, height).grown(GAP);
        grid.near(&wanted).into_iter().all(|slot| rects.get(&slot).is_none_or(|rect| !wanted.overlaps(rect)))
    };
    if free(anchor.x, anchor.y) {
        return FreePlace { position: anchor, rationale: format!("Positioned {rule}") };
    }
    let mut ring = 1;
    while f64::from(ring) * RING <= REACH {
        let mut best: Option<(f64, Point)> = None;
        for n in -ring..=ring {
            for (dx, dy) in [(n, -ring), (n, ring), (-ring, n), (ring, n)] {
                let point = Point::new(anchor.x + f64::from(dx) * RING, anchor.y + f64::from(dy) * RING);
                let distance = f64::from(dx * dx + dy * dy);
                if best.is_none_or(|(least, _)| distance < least) && free(point.x, point.y) {
                    best = Some((distance, point));
                }
            }
        }
        if let Some((_, position)) = best {
            return FreePlace {
                position,
                rationale: format!(
                    "Another object occupies the place {rule}: moved to the nearest free place, in steps of 15 px"
                ),
            };
        }
        ring += 1;
    }
    let position = Point::new((rightmost + MARGIN).max(0.0), 50.0);
    FreePlace {
        position,
        rationale: "No free place within 4000 px: positioned to the right of existing objects with a 50 px margin"
            .to_owned(),
    }
}

/// One inlet or outlet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nub {
    /// Box of the port.
    pub object: BoxId,
    /// Whether the port is an outlet.
    pub outlet: bool,
    /// Number of the port, counted from 0.
    pub index: u32,
}

/// The value to change so that two nubs are vertically aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjust {
    /// The width of the target.
    Width,
    /// The left edge of the target.
    Left,
}

/// Why no alignment could be proposed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LayoutError {
    /// The nub does not exist.
    #[error("{label} has no {side} {index}")]
    NoSuchNub {
        /// Label of the box.
        label: String,
        /// `inlet` or `outlet`.
        side: &'static str,
        /// The requested number.
        index: u32,
    },
    /// The box was removed.
    #[error("the object was removed")]
    NoSuchBox,
    /// The first or only nub of a side does not move when the width changes.
    #[error("the first or only inlet or outlet does not move when the width changes; use adjust = \"left\"")]
    FixedNub,
    /// The required width is too small: the anchor is not to the right of the target's first nub.
    #[error("this alignment would require a width of {width} px, which is too small; use adjust = \"left\"")]
    NoWidth {
        /// The required width.
        width: f64,
    },
    /// Too few boxes to align.
    #[error("{needed} objects are needed, {given} were given")]
    TooFew {
        /// The required number.
        needed: usize,
        /// The given number.
        given: usize,
    },
}

/// A proposed place for one box.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The box to move or resize.
    pub object: BoxId,
    /// The proposed rectangle.
    pub rect: Rect,
}

/// An alignment of two nubs.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment {
    /// x of the anchor nub, which is not moved.
    pub anchor_x: f64,
    /// Current x of the target nub.
    pub target_x: f64,
    /// The proposal for the target.
    pub proposal: Proposal,
    /// Description of the change.
    pub rationale: String,
}

/// Proposes a change that moves the target's nub to the x of the anchor's nub.
pub fn suggest_alignment(view: &View<'_>, anchor: Nub, target: Nub, adjust: Adjust) -> Result<Alignment, LayoutError> {
    let x_of = |wanted: Nub| {
        let object = view.get(wanted.object).ok_or(LayoutError::NoSuchBox)?;
        let missing = LayoutError::NoSuchNub {
            label: object.label().to_owned(),
            side: if wanted.outlet { "outlet" } else { "inlet" },
            index: wanted.index,
        };
        Ok((nub(&object, wanted.outlet, wanted.index).ok_or(missing)?.x, object))
    };
    let (anchor_x, _) = x_of(anchor)?;
    let (target_x, object) = x_of(target)?;
    let rect = object.rect();
    let (rect, rationale) = match adjust {
        Adjust::Left => (
            Rect { x: rect.x + anchor_x - target_x, ..rect },
            format!("moving the box by {} px aligns the two ports vertically", anchor_x - target_x),
        ),
        Adjust::Width => {
            let inset = first_nub(view.document.format.is_pd());
            let share = (target_x - rect.x - inset) / (rect.w - 2.0 * inset).max(f64::MIN_POSITIVE);
            if target.index == 0 || share <= 0.0 {
                return Err(LayoutError::FixedNub);
            }
            let width = (anchor_x - rect.x - inset) / share + 2.0 * inset;
            if width <= 0.0 || anchor_x <= rect.x + inset {
                return Err(LayoutError::NoWidth { width });
            }
            (Rect { w: width, ..rect }, format!("a width of {width} px puts port {} at x {anchor_x}", target.index))
        }
    };
    Ok(Alignment { anchor_x, target_x, proposal: Proposal { object: target.object, rect }, rationale })
}

/// The kinds of alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Moves left edges to the leftmost left edge.
    Left,
    /// Moves right edges to the rightmost right edge.
    Right,
    /// Moves top edges to the topmost top edge.
    Top,
    /// Moves bottom edges to the lowest bottom edge.
    Bottom,
    /// Moves centres to the horizontal middle of all boxes.
    HCenter,
    /// Moves centres to the vertical middle of all boxes.
    VCenter,
    /// Makes the gaps from left to right equal.
    DistributeH,
    /// Makes the gaps from top to bottom equal.
    DistributeV,
}

/// Proposes positions that align boxes. Boxes that would move by at most 0.01 px are left out.
pub fn align(view: &View<'_>, objects: &[BoxId], mode: Align) -> Result<(Vec<Proposal>, String), LayoutError> {
    let mut chosen: Vec<(BoxId, Rect)> = Vec::new();
    for id in objects {
        let object = view.get(*id).ok_or(LayoutError::NoSuchBox)?;
        if !chosen.iter().any(|(found, _)| found == id) {
            chosen.push((*id, object.rect()));
        }
    }
    let needed = match mode {
        Align::DistributeH | Align::DistributeV => 3,
        Align::Left | Align::Right | Align::Top | Align::Bottom | Align::HCenter | Align::VCenter => 2,
    };
    let Some((_, first)) = chosen.first().filter(|_| chosen.len() >= needed) else {
        return Err(LayoutError::TooFew { needed, given: chosen.len() });
    };
    let bounds = chosen.iter().fold(*first, |bounds, (_, rect)| bounds.union(rect));
    let simple = |place: &dyn Fn(&Rect) -> Rect| chosen.iter().map(|(id, rect)| (*id, place(rect))).collect::<Vec<_>>();
    let (placed, rationale) = match mode {
        Align::Left => (simple(&|rect| Rect { x: bounds.x, ..*rect }), format!("left edges move to x {}", bounds.x)),
        Align::Right => (
            simple(&|rect| Rect { x: bounds.right() - rect.w, ..*rect }),
            format!("right edges move to x {}", bounds.right()),
        ),
        Align::Top => (simple(&|rect| Rect { y: bounds.y, ..*rect }), format!("top edges move to y {}", bounds.y)),
        Align::Bottom => (
            simple(&|rect| Rect { y: bounds.bottom() - rect.h, ..*rect }),
            format!("bottom edges move to y {}", bounds.bottom()),
        ),
        Align::HCenter => (
            simple(&|rect| Rect { x: bounds.x + (bounds.w - rect.w) / 2.0, ..*rect }),
            format!("centres move to x {}", bounds.x + bounds.w / 2.0),
        ),
        Align::VCenter => (
            simple(&|rect| Rect { y: bounds.y + (bounds.h - rect.h) / 2.0, ..*rect }),
            format!("centres move to y {}", bounds.y + bounds.h / 2.0),
        ),
        Align::DistributeH => distribute(&chosen, &bounds, true),
        Align::DistributeV => distribute(&chosen, &bounds, false),
    };
    let moves = placed
        .into_iter()
        .zip(&chosen)
        .filter(|((_, new), (_, old))| (new.x - old.x).abs() > 0.01 || (new.y - old.y).abs() > 0.01)
        .map(|((object, rect), _)| Proposal { object, rect })
        .collect();
    Ok((moves, rationale))
}

fn distribute(chosen: &[(BoxId, Rect)], bounds: &Rect, across: bool) -> (Vec<(BoxId, Rect)>, String) {
    let start = |rect: &Rect| if across { rect.x } else { rect.y };
    let size = |rect: &Rect| if across { rect.w } else { rect.h };
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    let rect_of = |n: &usize| chosen.get(*n).map(|(_, rect)| *rect).unwrap_or_default();
    order.sort_by(|a, b| start(&rect_of(a)).total_cmp(&start(&rect_of(b))));
    let used: f64 = chosen.iter().map(|(_, rect)| size(rect)).sum();
    let gap = (size(bounds) - used) / (chosen.len() as f64 - 1.0);
    let mut at = start(bounds);
    let mut placed = chosen.to_vec();
    for n in order {
        if let Some((_, rect)) = placed.get_mut(n) {
            if across {
                rect.x = at;
            } else {
                rect.y = at;
            }
            at += size(rect) + gap;
        }
    }
    (placed, format!("all gaps become {gap} px"))
}
