//! Tells a port that came back from one that stayed, by what the platform announces.
//!
//! A list of ports shows names only: one that vanished and returned between two looks seems never
//! to have been away. Announcements may come later than the list that shows the port already, so
//! each port may be announced once without being another for it.

use super::PortInfo;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Births {
    /// As of the last look; none before the first.
    known: Option<BTreeMap<String, Known>>,
    heard: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    born: u64,
    /// It was listed before it was announced.
    is_early: bool,
}

impl Births {
    /// The platform announced a new port.
    pub fn hear(&mut self, id: String) {
        *self.heard.entry(id).or_default() += 1;
    }

    /// Writes into each port whether it is the one of the last look.
    pub fn look(&mut self, ports: &mut [PortInfo]) {
        let heard = std::mem::take(&mut self.heard);
        let mut now = BTreeMap::new();
        for port in ports {
            let births = heard.get(&port.id).copied().unwrap_or_default();
            // One id may be there for both ways.
            let known = now.entry(port.id.clone()).or_insert_with(|| match &self.known {
                // Those of the first look were there before us, and nobody announces them.
                None => Known { born: 0, is_early: false },
                Some(before) => match before.get(&port.id) {
                    None => Known { born: 0, is_early: births == 0 },
                    Some(it) => Known {
                        born: it.born + births.saturating_sub(u64::from(it.is_early)),
                        is_early: it.is_early && births == 0,
                    },
                },
            });
            port.born = known.born;
        }
        self.known = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Way;
    use super::*;

    fn look(births: &mut Births, ids: &[&str]) -> Vec<u64> {
        let mut ports: Vec<PortInfo> = ids.iter().map(|id| PortInfo::new("test", Way::Input, *id, *id)).collect();
        births.look(&mut ports);
        ports.iter().map(|it| it.born).collect()
    }

    #[test]
    fn one_that_came_back_is_another_and_one_that_stayed_is_not() {
        let mut births = Births::default();
        assert_eq!(look(&mut births, &["old"]), [0]);
        births.hear("new".into());
        assert_eq!(look(&mut births, &["old", "new"]), [0, 0]);
        assert_eq!(look(&mut births, &["old", "new"]), [0, 0], "looking changes nothing");
        births.hear("new".into());
        births.hear("old".into());
        assert_eq!(look(&mut births, &["old", "new"]), [1, 1]);
    }

    #[test]
    fn an_announcement_that_comes_late_is_not_a_return() {
        let mut births = Births::default();
        look(&mut births, &[]);
        assert_eq!(look(&mut births, &["x", "x"]), [0, 0], "listed for both ways, not announced yet");
        births.hear("x".into());
        assert_eq!(look(&mut births, &["x", "x"]), [0, 0]);
        births.hear("x".into());
        assert_eq!(look(&mut births, &["x", "x"]), [1, 1]);
        // Late, and back again at once.
        look(&mut births, &[]);
        assert_eq!(look(&mut births, &["x"]), [0]);
        births.hear("x".into());
        births.hear("x".into());
        assert_eq!(look(&mut births, &["x"]), [1]);
    }
}
