# D-optimal designs of the R package AlgDesign 1.2.1 (Fedorov's exchange, the best of 20 starts) for ten problems with two to five levels,
# interactions and constraints. Writes tests/golden/designs/optimal.json.
#
#     Rscript tests/oracles/designs/optimal.R > tests/golden/designs/optimal.json
#
# Levels and factors count from 0. A forbidden line `i a j b` leaves out the combinations with factor i at level a and factor j at level b.
library(AlgDesign)
problem <- function(levels, runs, interactions = list(), forbidden = list())
  list(levels = levels, runs = runs, interactions = interactions, forbidden = forbidden)
problems <- list(
  problem(c(2, 2, 2, 2, 2), 12),
  problem(c(2, 2, 2, 2), 12, list(c(0, 1), c(0, 2), c(0, 3), c(1, 2), c(1, 3), c(2, 3))),
  problem(c(3, 3, 3), 9),
  problem(c(3, 3, 3, 3), 12),
  problem(c(2, 3, 4), 10),
  problem(c(2, 3, 4), 14, list(c(0, 1))),
  problem(c(4, 4, 2, 2), 15, list(c(2, 3))),
  problem(c(2, 2, 2, 2, 2, 2), 16, list(c(0, 1), c(0, 2), c(1, 2), c(3, 4), c(4, 5)), list(c(0, 1, 5, 1))),
  problem(c(3, 3, 3, 3, 3), 20, list(c(0, 1)), list(c(0, 0, 2, 2), c(2, 1, 3, 1))),
  problem(c(5, 4, 3, 2, 2), 30, list(c(3, 4), c(0, 3)), list(c(0, 4, 1, 2), c(0, 4, 1, 3), c(2, 2, 3, 1)))
)
numbers <- function(values) paste0("[", paste(values, collapse = ","), "]")
lists <- function(all) paste0("[", paste(sapply(all, numbers), collapse = ","), "]")
set.seed(47)
texts <- sapply(problems, function(p) {
  candidates <- expand.grid(lapply(p$levels, function(n) 0:(n - 1)))
  for (f in p$forbidden) candidates <- candidates[!(candidates[[f[1] + 1]] == f[2] & candidates[[f[3] + 1]] == f[4]), ]
  names(candidates) <- paste0("x", seq_along(p$levels) - 1)
  codes <- candidates
  candidates[] <- lapply(candidates, factor)
  terms <- c(names(candidates), sapply(p$interactions, function(i) sprintf("x%d:x%d", i[1], i[2])))
  best <- optFederov(as.formula(paste("~", paste(terms, collapse = "+"))), candidates, nTrials = p$runs, nRepeats = 20)
  rows <- codes[best$rows, ]
  sprintf("{\"levels\":%s,\"runs\":%d,\"interactions\":%s,\"forbidden\":%s,\n \"design\":%s}", numbers(p$levels), p$runs,
          if (length(p$interactions)) lists(p$interactions) else "[]", if (length(p$forbidden)) lists(p$forbidden) else "[]",
          lists(lapply(seq_len(nrow(rows)), function(i) unlist(rows[i, ]))))
})
cat("[", paste(texts, collapse = ",\n"), "]\n", sep = "")
