/* parts.h - what the page's data consists of; page.js draws it. Each part is to be deleted by the caller. Times are ns from
 * where the strip begins. */
#ifndef PROFD_CLIENT_PAGE_PARTS_H
#define PROFD_CLIENT_PAGE_PARTS_H

#include "client/reader/capture.h"

struct page_time; /* steps.h */

/* {"start", "end", "names", "tracks": [{"title", "start", "pieces", "rows_of", "titles", "labels", "gathered"}], "sentence"} */
cJSON *page_strip(const struct page_time *time, const struct reader *reader);
/* {"nodes": [[parent, name, calls, total, self, device]], "names", "shortened", "device", "left_out"}: operators and ranges by what called them, a
 * parent before its children. */
cJSON *page_tree(const struct reader *reader);
/* An array of what `profd show` shows, each as table_grid() with "heading", "open", "how" (it tells how the capture was made),
 * "absence" (why it is not recorded). The breakdown is not computed again. */
cJSON *page_tables(struct capture *capture, struct page_time *time);
/* Leaves out of the page's data what tells where and by whom the job was run: of paths their last part stays. */
void page_redact(cJSON *data);

#endif
