//! t
/// f
#[derive(Debug)]
pub struct Finding;
impl Finding {
    /// f
    pub fn is_failure(&self) -> bool {
        true
    }
}
impl std::fmt::Display for Finding {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}
/// f
pub fn run(_: &std::path::Path) -> anyhow::Result<Vec<Finding>> {
    Ok(vec![])
}
