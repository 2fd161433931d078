/* commands.h - the verbs' functions, client/command/VERB.c each. They return the program's exit code. */
#ifndef PROFD_CLIENT_VERBS_COMMANDS_H
#define PROFD_CLIENT_VERBS_COMMANDS_H

struct arguments;

int command_audit(struct arguments *arguments);
int command_cancel(struct arguments *arguments);
int command_captures(struct arguments *arguments);
int command_daemon(struct arguments *arguments);
int command_doctor(struct arguments *arguments);
int command_env(struct arguments *arguments);
int command_export(struct arguments *arguments);
int command_help(struct arguments *arguments);
int command_history(struct arguments *arguments);
int command_metrics(struct arguments *arguments);
int command_pin(struct arguments *arguments);
int command_ps(struct arguments *arguments);
int command_rm(struct arguments *arguments);
int command_run(struct arguments *arguments);
int command_show(struct arguments *arguments);
int command_snapshot(struct arguments *arguments);
int command_status(struct arguments *arguments);
int command_trigger(struct arguments *arguments);
int command_unpin(struct arguments *arguments);
int command_version(struct arguments *arguments);

#endif
