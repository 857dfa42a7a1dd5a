//! The facts about cells that filters read.

use super::Cell;
use crate::plan::{Facts, Level};

/// Filters on levels only, without a text: words never match.
impl Facts for Cell<'_> {
    fn level(&self, key: &str) -> Option<Level> {
        Cell::level(self, key)
    }

    fn any_level(&self, key: &str, meets: &mut dyn FnMut(&Level) -> bool) -> bool {
        Cell::any_level(self, key, meets)
    }

    fn mentions(&self, _word: &str) -> bool {
        false
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::analysis::{cells, fixture, summarise_run};
    use crate::plan::{Filter, Level, Levels};
    use crate::store::RunRecord;

    #[test]
    fn a_filter_that_names_a_level_exactly_chooses_no_cell_of_another_level() {
        let run = |version: &str| RunRecord {
            cell: version.to_owned(),
            levels: Levels::new(vec![("version", Level::text(version))]),
            ..fixture::finished()
        };
        let runs: Vec<_> = ["a", "A"].map(run).iter().map(summarise_run).collect();
        let cells = cells(&runs);
        let filter = Filter::parse("version=A").unwrap();
        assert_eq!(cells.iter().filter(|cell| filter.admits(*cell)).count(), 2, "both are written alike");
        let filter = filter.among(&cells.iter()).unwrap();
        let chosen: Vec<&str> = cells.iter().filter(|cell| filter.admits(*cell)).map(|cell| cell.id).collect();
        assert_eq!(chosen, ["A"]);
    }
}
