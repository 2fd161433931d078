/* template.h - page.html, page.css and page.js as texts: template.c is made of them by cmake/embed.cmake. */
#ifndef PROFD_CLIENT_PAGE_TEMPLATE_H
#define PROFD_CLIENT_PAGE_TEMPLATE_H

extern const char page_template[], page_style[], page_script[];

#endif
