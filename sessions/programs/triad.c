/* Memory bandwidth: a[i] = b[i] + s * c[i] over arrays far larger than caches, as in STREAM's triad.
 *
 *   triad THREADS MEGABYTES PASSES
 *
 * Each pass is a step; its line goes to the file that MULTICARD_READINGS names, or to standard output.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double *a, *b, *c;
static long length, threads;

static void *part(void *which) {
  long first = length * (long)which / threads, last = length * ((long)which + 1) / threads;
  for (long i = first; i < last; i++) a[i] = b[i] + 3.0 * c[i];
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int count, char **words) {
  if (count != 4) return fprintf(stderr, "usage: triad THREADS MEGABYTES PASSES\n"), 2;
  threads = atol(words[1]);
  length = atol(words[2]) * 1000000 / sizeof(double);
  long passes = atol(words[3]);
  if (threads < 1 || threads > 1024 || length < 1 || passes < 1) return fprintf(stderr, "numbers from 1\n"), 2;
  a = malloc(length * sizeof *a), b = malloc(length * sizeof *b), c = malloc(length * sizeof *c);
  if (!a || !b || !c) return fprintf(stderr, "out of memory\n"), 1;
  for (long i = 0; i < length; i++) a[i] = 0, b[i] = i, c[i] = 1;
  const char *path = getenv("MULTICARD_READINGS");
  FILE *readings = path ? fopen(path, "a") : stdout;
  if (!readings) return perror(path), 1;
  for (long pass = 1; pass <= passes; pass++) {
    pthread_t ids[1024];
    double start = now();
    for (long i = 0; i < threads; i++)
      if (pthread_create(&ids[i], NULL, part, (void *)i)) return fprintf(stderr, "cannot start a thread\n"), 1;
    for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    double seconds = now() - start, bytes = 3.0 * length * sizeof(double);
    fprintf(readings, "{\"step\": %ld, \"steps\": %ld, \"duration_s\": %.9f, \"bandwidth_gb_per_s\": %.3f}\n", pass, passes,
            seconds, bytes / seconds * 1e-9);
    fflush(readings);
  }
  printf("a[1] = %g\n", a[length > 1 ? 1 : 0]);
  return 0;
}
