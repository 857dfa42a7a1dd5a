# Regular two-level fractions of the R package FrF2 (catalogue of Chen, Sun and Wu, "A catalogue of two-level and three-level fractional
# factorial designs with small runs", International Statistical Review 61, 1993): for each number of runs and factors, the first design of
# the catalogue, which has minimum aberration. Writes tests/golden/designs/fractions.csv.
#
#     Rscript tests/oracles/designs/fractions.R FRF2 > tests/golden/designs/fractions.csv
#
# FRF2 is the folder of the package's sources; its catalogue is read from there, so that none of its dependencies is needed.
catalogue <- new.env()
load(file.path(commandArgs(TRUE)[1], "R", "sysdata.rda"), catalogue)
cat("factors,runs,resolution,words_of_length_3_4_5_6,clear_two_factor_interactions,generators\n")
for (runs in 2^(2:7)) {
  for (factors in (log2(runs) + 1):15) {
    name <- sprintf("%d-%d.1", factors, factors - log2(runs))
    design <- catalogue$catlg[[name]]
    if (is.null(design)) next
    words <- c(design$WLP, rep(0, 6))[3:6]
    cat(sprintf("%d,%d,%d,%s,%d,%s\n", factors, runs, design$res, paste(words, collapse = " "), design$nclear.2fis,
                paste(design$gen, collapse = " ")))
  }
}
