// What it costs a program in C to submit a fetch of 64 pages: farpage_c_submit [ROUNDS] [TOML].
// Prints JSON; the ticket's end is awaited outside of what is measured.
#include <farpage/farpage.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGES 64
#define PAGE_BYTES 4096

static char memory[PAGES * PAGE_BYTES];

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static void require(farpage_code_t code) {
  if (code == FARPAGE_OK) return;
  fprintf(stderr, "farpage_c_submit: %s\n", farpage_last_error());
  exit(1);
}

static int by_value(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
  double* submit_us = rounds > 0 ? malloc((size_t)rounds * sizeof *submit_us) : NULL;
  farpage_t* client;
  farpage_region_t* region;
  farpage_ticket_t* ticket;
  farpage_page_t pages[PAGES];
  size_t ready = 0;

  if (submit_us == NULL) {
    fprintf(stderr, "farpage_c_submit: choose a number of rounds\n");
    return 2;
  }
  require(farpage_open(argc > 2 ? argv[2] : "[client]\nembedded = true\n", &client));
  require(farpage_register(client, memory, sizeof memory, &region));
  for (int i = 0; i < PAGES; ++i) {
    const farpage_page_t page = FARPAGE_PAGE_INIT;
    pages[i] = page;
    require(farpage_key("c_submit", 8, &i, sizeof i, &pages[i].key));
    pages[i].data = memory + i * PAGE_BYTES;
    pages[i].bytes = PAGE_BYTES;
  }
  require(farpage_put(client, pages, PAGES, 10000000, NULL, &ticket));
  farpage_ticket_free(ticket);
  for (long round = 0; round < rounds; ++round) {
    const farpage_page_verdict_t* verdicts;
    size_t count;
    const double begun_us = now_us();
    require(farpage_fetch(client, pages, PAGES, 10000000, NULL, &ticket));
    submit_us[round] = now_us() - begun_us;
    require(farpage_ticket_wait(ticket, UINT64_MAX));
    require(farpage_ticket_verdicts(ticket, &verdicts, &count));
    for (size_t i = 0; i < count; ++i) ready += verdicts[i].verdict == FARPAGE_READY;
    farpage_ticket_free(ticket);
  }
  qsort(submit_us, (size_t)rounds, sizeof *submit_us, by_value);
  printf("{\"rounds\": %ld, \"pages\": %d, \"not_ready\": %zu, \"submit_us\": {\"p50\": %.2f, \"p99\": %.2f}}\n",
         rounds, PAGES, (size_t)rounds * PAGES - ready, submit_us[rounds / 2], submit_us[rounds * 99 / 100]);
  free(submit_us);
  require(farpage_close(client));
  return 0;
}
