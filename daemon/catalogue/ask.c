/* ask.c - see ask.h. Thread: the loop's. No locks. */
#include "ask.h"
#include "catalogue.h"
#include "daemon/core/quota.h"

/* The catalogue has at most this many questions of one user at a time. */
#define QUESTIONS_USER 8

bool catalogue_ask(struct server *server, struct quota_user *user, struct work *work)
{
	if (user->questions < QUESTIONS_USER) {
		if (!catalogue_submit(catalogue_of(server), work))
			return false;
	} else {
		work->next = NULL;
		if (user->last_question)
			user->last_question->next = work;
		else
			user->first_question = work;
		user->last_question = work;
	}
	user->questions++;
	return true;
}

void catalogue_answered(struct server *server, struct quota_user *user)
{
	user->questions--;
	struct work *work = user->first_question;
	if (!work)
		return;
	user->first_question = work->next;
	if (!user->first_question)
		user->last_question = NULL;
	if (!catalogue_submit(catalogue_of(server), work)) {
		work->run = NULL;
		work->done(work);
	}
}
