pub struct Explanation;
pub fn explain() {}
