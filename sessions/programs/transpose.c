/* Transposition of a square matrix in tiles: the best tile depends on the caches of the machine.
 *
 *   transpose TILE ORDER SIZE PASSES        ORDER is rows (reads along rows) or columns (writes along rows)
 *
 * Each pass is a step; its line goes to the file that MULTICARD_READINGS names, or to standard output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int count, char **words) {
  if (count != 5) return fprintf(stderr, "usage: transpose TILE rows|columns SIZE PASSES\n"), 2;
  long tile = atol(words[1]), size = atol(words[3]), passes = atol(words[4]);
  int by_rows = strcmp(words[2], "rows") == 0;
  if (tile < 1 || size < 1 || size > 100000 || passes < 1) return fprintf(stderr, "numbers from 1\n"), 2;
  if (tile > size) return fprintf(stderr, "a tile of %ld is larger than the matrix of %ld\n", tile, size), 1;
  float *from = malloc(sizeof(float) * size * size), *to = malloc(sizeof(float) * size * size);
  if (!from || !to) return fprintf(stderr, "out of memory\n"), 1;
  for (long i = 0; i < size * size; i++) from[i] = i, to[i] = 0;
  const char *path = getenv("MULTICARD_READINGS");
  FILE *readings = path ? fopen(path, "a") : stdout;
  if (!readings) return perror(path), 1;
  for (long pass = 1; pass <= passes; pass++) {
    double start = now();
    for (long row = 0; row < size; row += tile)
      for (long column = 0; column < size; column += tile) {
        long last_row = row + tile < size ? row + tile : size, last_column = column + tile < size ? column + tile : size;
        if (by_rows)
          for (long i = row; i < last_row; i++)
            for (long j = column; j < last_column; j++) to[j * size + i] = from[i * size + j];
        else
          for (long j = column; j < last_column; j++)
            for (long i = row; i < last_row; i++) to[j * size + i] = from[i * size + j];
      }
    double seconds = now() - start, bytes = 2.0 * size * size * sizeof(float);
    fprintf(readings, "{\"step\": %ld, \"steps\": %ld, \"duration_s\": %.9f, \"bandwidth_gb_per_s\": %.4f}\n", pass, passes,
            seconds, bytes / seconds * 1e-9);
    fflush(readings);
  }
  printf("to[1] = %g\n", to[size > 1 ? 1 : 0]);
  return 0;
}
