//! Landlock and seccomp functions that the plugin sandbox and the Pd sandbox share.
//!
//! Not here: the permissions of each sandbox.

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

pub type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whether the kernel can restrict access to paths.
pub fn knows_paths() -> bool {
    strict().handle_access(AccessFs::from_all(ABI::V1)).is_ok()
}

/// Whether the kernel can restrict access to TCP ports.
pub fn knows_ports() -> bool {
    strict().handle_access(AccessNet::from_all(ABI::V4)).is_ok()
}

fn strict() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// A ruleset that forbids every path. It also forbids signals and abstract sockets to processes
/// outside the sandbox, if the kernel supports that.
pub fn forbid_paths() -> io::Result<Ruleset> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|it| it.scope(Scope::from_all(ABI::V6)))
        .map_err(io::Error::other)
}

/// Like [`forbid_paths`], but also forbids every TCP port.
pub fn forbid_paths_and_ports() -> io::Result<Ruleset> {
    forbid_paths()?.handle_access(AccessNet::from_all(ABI::V6)).map_err(io::Error::other)
}

/// A rule that matches when all conditions match.
pub fn all<const N: usize>(conditions: [(u8, SeccompCmpOp, u64); N]) -> io::Result<SeccompRule> {
    let conditions: Result<Vec<_>, _> = conditions
        .into_iter()
        .map(|(argument, op, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value))
        .collect();
    conditions.and_then(SeccompRule::new).map_err(io::Error::other)
}

/// A filter that applies the action `matched` to system calls that match a rule, and the action
/// `otherwise` to all others. A system call with an empty list of rules always matches.
pub fn filter(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    SeccompFilter::new(rules, otherwise, matched, arch).and_then(TryInto::try_into).map_err(io::Error::other)
}
