// Puts a page into a memory node inside this process, fetches it, and prints what became of it.
#include <farpage/farpage.h>
#include <stdio.h>

#define TRY(call)                                              \
  if ((call) != FARPAGE_OK) {                                  \
    fprintf(stderr, "first_page: %s\n", farpage_last_error()); \
    return 1;                                                  \
  }

static char memory[2][4096] = {"the bytes of a page"};  // and a place to fetch it into

int main(void) {
  farpage_t* client;
  farpage_region_t* region;
  farpage_ticket_t* ticket;
  farpage_page_t page = FARPAGE_PAGE_INIT;
  const farpage_put_result_t* results;
  const farpage_page_verdict_t* verdicts;
  size_t count;

  TRY(farpage_open("[client]\nembedded = true\n", &client));
  TRY(farpage_register(client, memory, sizeof memory, &region));
  TRY(farpage_key("model-7b/bf16", 13, "page 1", 6, &page.key));
  page.data = memory[0];
  page.bytes = sizeof memory[0];
  TRY(farpage_put(client, &page, 1, 1000000, NULL, &ticket));
  TRY(farpage_ticket_wait(ticket, UINT64_MAX));
  TRY(farpage_ticket_results(ticket, &results, &count));
  printf("put: %s\n", farpage_code_name(results[0].code));
  farpage_ticket_free(ticket);
  page.data = memory[1];
  TRY(farpage_fetch(client, &page, 1, 1000000, NULL, &ticket));
  TRY(farpage_ticket_wait(ticket, UINT64_MAX));
  TRY(farpage_ticket_verdicts(ticket, &verdicts, &count));
  printf("fetch: %s, %s\n", farpage_verdict_name(verdicts[0].verdict), memory[1]);
  farpage_ticket_free(ticket);
  return farpage_close(client);
}
