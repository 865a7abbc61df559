//! Compares the rule tables with the counts in real files.

use std::collections::BTreeMap;

use conductor_patch::{Basis, Format, objects};

use crate::corpus;

/// Every cord of a working patch ends at an existing port, so a table without this port is wrong.
#[test]
fn the_pd_table_denies_no_port_that_real_patches_use() {
    let mut denied: BTreeMap<String, usize> = BTreeMap::new();
    let mut checked = 0;
    for sample in corpus::pd() {
        sample.open().walk(&mut |view| {
            for cord in view.cords() {
                for (object, port, out) in [(cord.from(), cord.outlet(), true), (cord.to(), cord.inlet(), false)] {
                    let Some(object) = object else { continue };
                    let ports = object.ports();
                    if ports.basis != Basis::Rule || !ports.exact {
                        continue;
                    }
                    checked += 1;
                    let count = if out { ports.outlets } else { ports.inlets };
                    if count.is_some_and(|count| port >= count) {
                        *denied
                            .entry(format!(
                                "{} ({} {port} of {count:?})",
                                object.text(),
                                if out { "outlet" } else { "inlet" }
                            ))
                            .or_default() += 1;
                    }
                }
            }
        });
    }
    println!("{checked} cord ends checked, denied: {denied:?}");
    assert!(denied.values().sum::<usize>() * 1000 <= checked, "{denied:?}");
}

/// Compares the table's counts with the counts in files; returns (agreeing, answered, all).
fn agreement(counts: impl Fn(&str) -> Option<(u32, u32)>) -> (usize, usize, usize) {
    let (mut agreeing, mut answered, mut all) = (0, 0, 0);
    let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
    for sample in corpus::max() {
        sample.open().walk(&mut |view| {
            if view.is_gen() {
                return;
            }
            for object in view.boxes().filter(|object| object.maxclass() == "newobj" && object.inside().is_none()) {
                let ports = object.ports();
                let (Basis::File, Some(inlets), Some(outlets)) = (ports.basis, ports.inlets, ports.outlets) else {
                    continue;
                };
                all += 1;
                let Some(told) = counts(object.text()) else {
                    continue;
                };
                answered += 1;
                let also = objects::table(Format::Maxpat)
                    .class_of(object.text())
                    .is_some_and(|(class, _)| class.also.contains(&(inlets, outlets)));
                if told == (inlets, outlets) || also {
                    agreeing += 1;
                } else {
                    *wrong
                        .entry(format!("{} {told:?} in file {:?}", object.class(), (inlets, outlets)))
                        .or_default() += 1;
                }
            }
        });
    }
    println!("{agreeing} of {answered} answers agree, {all} objects in total; {wrong:?}");
    (agreeing, answered, all)
}

#[test]
fn the_max_table_agrees_with_real_files() {
    if corpus::max().is_empty() {
        return;
    }
    let (agreeing, answered, all) = agreement(|text| objects::exact_counts(Format::Maxpat, text));
    assert!(answered * 100 > all * 70, "the table answers for only {answered} of {all}");
    assert!(agreeing * 1000 >= answered * 985, "{agreeing} of {answered}");
}

#[test]
fn one_broken_rule_would_be_noticed() {
    if corpus::max().is_empty() {
        return;
    }
    let broken = |text: &str| {
        let (inlets, outlets) = objects::exact_counts(Format::Maxpat, text)?;
        Some(if text.starts_with("t ") || text.starts_with("trigger ") { (inlets, 2) } else { (inlets, outlets) })
    };
    let (agreeing, answered, _) = agreement(broken);
    assert!(agreeing * 1000 < answered * 985, "{agreeing} of {answered}");
}
