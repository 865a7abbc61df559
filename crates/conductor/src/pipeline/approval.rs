//! Step 8: whether a person has said yes.

use std::sync::Arc;

use conductor_core::audit::record::ApprovalRef;
use conductor_core::digest::Digest;
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::{Decision, Verdict};

use super::Stop;
use super::call::Call;
use super::limits::Slot;
use super::record::Paper;
use crate::studio::Studio;
use crate::tools::catalog::Tool;

/// Under whose yes a call runs.
#[derive(Debug, Clone)]
pub enum Consent {
    /// Policy allows it, or the handler only makes a plan.
    NotNeeded,
    Given(Given),
}

#[derive(Debug, Clone)]
pub struct Given {
    pub reference: ApprovalRef,
    pub policy_version: Digest,
    pub base_state: Option<Option<Digest>>,
    pub held: bool,
}

impl Consent {
    pub fn was_held(&self) -> bool {
        matches!(self, Self::Given(Given { held: true, .. }))
    }

    pub fn policy_version(&self) -> Digest {
        match self {
            Self::NotNeeded => Digest::from_bytes([0; 32]),
            Self::Given(given) => given.policy_version,
        }
    }

    /// The state the yes was given for; outer absence means there is nothing to compare.
    pub fn base_state(&self) -> Option<Option<Digest>> {
        match self {
            Self::NotNeeded => None,
            Self::Given(given) => given.base_state,
        }
    }

    pub fn reference(&self) -> Option<ApprovalRef> {
        match self {
            Self::NotNeeded => None,
            Self::Given(given) => Some(given.reference.clone()),
        }
    }
}

pub async fn answer(
    _studio: &Arc<Studio>,
    tool: &Arc<Tool>,
    _call: &Call,
    verdict: &Verdict,
    _slot: &mut Option<Slot>,
    _paper: &mut Paper,
) -> Result<Consent, Stop> {
    match verdict.decision {
        Decision::Allow | Decision::Plan => Ok(Consent::NotNeeded),
        Decision::Ask | Decision::Deny => {
            Err(ToolError::new(Code::ApprovalRequired, format!("{} needs a person's yes", tool.name))
                .subject(Subject::Tool(tool.name.to_string()))
                .into())
        }
    }
}
