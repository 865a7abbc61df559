//! `validate_layout`: finds layout problems.

use super::prelude::*;
use conductor_patch::BoxId;
use conductor_patch::validate::{self, Check, Finding, Gravity, Options};

pub fn definition(patches: &Arc<Patches>) -> Definition {
    read("validate_layout", patches, run)
        .text(
            "Check the layout",
            "Finds cords that run upwards or through objects, and objects and cords that overlap.",
        )
        .input(input(json!({
            "patch_id*": "id", "scope_varnames": "refs", "mode": { "enum": ["patching", "presentation"], "default": "patching" },
            "checks": { "type": "array", "uniqueItems": true, "items": { "enum": ["upward", "overlap", "cord_object", "cord_cord",
                "presentation_overlap"] } },
            "epsilon": { "type": "number", "minimum": 0, "default": 2.0 }, "include_background": "flag",
            "limit": { "type": "integer", "minimum": 1, "maximum": 5000, "default": 200 },
        })))
        .output(body(json!({
            "clean": "bool",
            "summary": { "upward": "int", "overlap": "int", "cord_object": "int", "cord_cord": "int", "presentation_overlap": "int" },
            "findings": [{ "check": "text", "severity": { "enum": ["error", "warning"] }, "objects": ["text"],
                "patchline?": { "src_varname": "text", "outlet": "int", "dst_varname": "text", "inlet": "int" },
                "at?": "xy", "amount": "num", "bounds?": "rect" }],
            "truncated": "bool",
        })))
}

fn run(asked: &Asked) -> Result<Output, ToolError> {
    asked.look(|scene| {
        let arguments = asked.arguments();
        let named = arguments.get("scope_varnames").map(|_| arguments.objects("scope_varnames", scene));
        let scope = named.transpose()?;
        let checks = arguments.get("checks").map(|_| {
            let wanted = arguments.texts("checks");
            Check::ALL.into_iter().filter(|it| wanted.contains(&it.name())).collect()
        });
        let report = validate::validate(&scene.view, &Options {
            scope,
            presentation: arguments.text("mode") == Some("presentation"),
            checks,
            epsilon: arguments.number("epsilon").unwrap_or(2.0),
            include_background: arguments.flag("include_background"),
            limit: arguments.count("limit", 200),
        });
        let summary: serde_json::Map<_, _> =
            Check::ALL.iter().zip(report.summary).map(|(check, count)| (check.name().to_owned(), json!(count))).collect();
        let all = report.findings.iter().map(|it| finding(scene, it));
        let (findings, cut) = answer::page(all, 0, usize::MAX);
        Ok(json!({
            "clean": report.clean(), "summary": summary, "findings": findings, "truncated": report.truncated || cut.is_some(),
        }))
    })
}

fn finding(scene: &Scene<'_>, it: &Finding) -> Value {
    let label = |id: BoxId| scene.view.get(id).map(|it| it.label().to_owned()).unwrap_or_default();
    let severity = match it.gravity {
        Gravity::Error => "error",
        Gravity::Warning => "warning",
    };
    answer::object(json!({
        "check": it.check.name(),
        "severity": severity,
        "objects": it.objects.iter().map(|id| label(*id)).collect::<Vec<_>>(),
        "patchline": it.cord.map(|cord| json!({
            "src_varname": label(cord.from), "outlet": cord.outlet, "dst_varname": label(cord.to), "inlet": cord.inlet,
        })),
        "at": it.at.map(answer::point),
        "amount": it.amount,
        "bounds": it.bounds.map(|it| it.array()),
    }))
}
