//! Files of the product that this package compiles again.

#[path = "../../crates/conductor-daemon/src/doors/http/authority.rs"]
pub mod authority;
#[path = "../../crates/conductor-hosts/src/plugin/frame.rs"]
pub mod frame;
#[path = "../../crates/conductor-hosts/src/pd/fudi.rs"]
pub mod fudi;
#[path = "../../crates/conductor-hosts/src/plugin/manifest.rs"]
pub mod manifest;
#[path = "../../crates/conductor-hosts/src/osc/packet.rs"]
pub mod packet;
#[path = "../../crates/conductor-tools/src/database/statement.rs"]
pub mod statement;
#[path = "../../crates/conductor-hosts/src/pd/tcl.rs"]
pub mod tcl;
#[path = "../../crates/conductor-daemon/src/doors/mcp/wire.rs"]
pub mod wire;

pub mod methods {
    pub type Answer = Result<rmcp::model::ServerResult, rmcp::model::ErrorData>;
}

#[path = "../../crates/conductor-hosts/src/web/address.rs"]
pub mod address;
#[path = "../../crates/conductor-hosts/src/web/error.rs"]
pub mod error;
#[path = "../../crates/conductor-hosts/src/web/reach.rs"]
pub mod reach;
