//! `validate_layout`: finds layout problems.

use super::argument::Xy;
use super::prelude::*;
use conductor_patch::BoxId;
use conductor_patch::validate::{self, Check, Gravity, Options};

#[derive(Deserialize, JsonSchema)]
struct Args {
    patch_id: PatchId,
    /// Only problems with these objects.
    #[schemars(length(min = 1, max = 2000))]
    scope_varnames: Option<Vec<ObjectRef>>,
    /// Mode of the patch to check; presentation checks overlaps only.
    #[serde(default)]
    mode: Mode,
    /// Checks to run; without it, all checks of the mode.
    #[schemars(extend("uniqueItems" = true))]
    checks: Option<Vec<CheckName>>,
    /// Tolerance in pixels.
    #[serde(default = "epsilon")]
    #[schemars(range(min = 0))]
    epsilon: f64,
    /// Whether to check backgrounds, panels and comments on panels too.
    #[serde(default)]
    include_background: bool,
    /// Maximum number of problems.
    #[serde(default = "argument::count::<200>")]
    #[schemars(range(min = 1, max = 5000))]
    limit: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Patching,
    Presentation,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CheckName {
    Upward,
    Overlap,
    CordObject,
    CordCord,
    PresentationOverlap,
}

impl CheckName {
    fn check(self) -> Check {
        match self {
            CheckName::Upward => Check::Upward,
            CheckName::Overlap => Check::Overlap,
            CheckName::CordObject => Check::CordObject,
            CheckName::CordCord => Check::CordCord,
            CheckName::PresentationOverlap => Check::PresentationOverlap,
        }
    }
}

fn epsilon() -> f64 {
    2.0
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// Whether no problem was found.
    clean: bool,
    /// Number of problems per check.
    summary: Summary,
    /// The problems.
    findings: Vec<Finding>,
    /// Whether there are more problems.
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Summary {
    /// Number of cords that run upwards.
    upward: usize,
    /// Number of overlaps of objects.
    overlap: usize,
    /// Number of cords that cross an object.
    cord_object: usize,
    /// Number of overlaps of cords.
    cord_cord: usize,
    /// Number of overlaps of objects in presentation mode.
    presentation_overlap: usize,
}

#[derive(Serialize, JsonSchema)]
struct Finding {
    /// The check that found the problem.
    check: &'static str,
    /// Severity of the problem.
    severity: Severity,
    /// Names or keys of the affected objects.
    objects: Vec<String>,
    /// The affected cord.
    #[serde(skip_serializing_if = "Option::is_none")]
    patchline: Option<answer::Cord>,
    /// Position of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Xy>,
    /// Area in square pixels for overlaps of objects, otherwise length in pixels.
    amount: f64,
    /// Left, top, width and height of an overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<[f64; 4]>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
}

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("validate_layout", patches, run).text(
        "Check the layout",
        "Finds cords that run upwards or through objects, and objects and cords that overlap.",
    )
}

fn run(asked: &Asked<Args>) -> Result<PatchAnswer<Answer>, ToolError> {
    let it = &asked.args;
    asked.look(&it.patch_id, |scene| {
        let report = validate::validate(
            &scene.view,
            &Options {
                scope: it.scope_varnames.as_deref().map(|names| argument::objects(names, scene)).transpose()?,
                presentation: it.mode == Mode::Presentation,
                checks: it.checks.as_ref().map(|names| names.iter().map(|it| it.check()).collect()),
                epsilon: it.epsilon,
                include_background: it.include_background,
                limit: it.limit,
            },
        );
        let [upward, overlap, cord_object, cord_cord, presentation_overlap] = report.summary;
        let all = report.findings.iter().map(|it| finding(scene, it));
        let (findings, cut) = answer::page(all, 0, usize::MAX);
        Ok(Answer {
            clean: report.clean(),
            summary: Summary { upward, overlap, cord_object, cord_cord, presentation_overlap },
            findings,
            truncated: report.truncated || cut.is_some(),
        })
    })
}

fn finding(scene: &Scene<'_>, it: &validate::Finding) -> Finding {
    let label = |id: BoxId| scene.view.get(id).map(|it| it.label().to_owned()).unwrap_or_default();
    Finding {
        check: it.check.name(),
        severity: match it.gravity {
            Gravity::Error => Severity::Error,
            Gravity::Warning => Severity::Warning,
        },
        objects: it.objects.iter().map(|id| label(*id)).collect(),
        patchline: it.cord.map(|cord| answer::Cord {
            src_varname: label(cord.from),
            outlet: cord.outlet,
            dst_varname: label(cord.to),
            inlet: cord.inlet,
        }),
        at: it.at.map(Xy::from),
        amount: it.amount,
        bounds: it.bounds.map(|it| it.array()),
    }
}
