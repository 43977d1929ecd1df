import { Type } from 'typebox';
import { auditActions, auditSources } from '../../store/audit.ts';
import { type Answer, oneOf, textOrNull, time } from './response.ts';

export const AuditedChange = Type.Object({
  id: Type.String(),
  at: time('When it was made, or first seen.'),
  source: oneOf(
    auditSources,
    '`rest`: a call or the pages; `kubernetes`: kubectl, GitOps; `file`: manifests or the rules file; `database`: another program; `gateway`: the gateway itself.',
  ),
  action: oneOf(auditActions, 'What was done.'),
  kind: Type.String({ description: 'Kind of resource, or what else changed, such as `QueuedQuery`.' }),
  namespace: textOrNull('Of its resource.'),
  name: Type.String({ description: 'Name that it is listed by: of a cluster that in the registry.' }),
  object: Type.String({ description: 'In words.' }),
  user: textOrNull('Who called; null where no call did it.'),
  manager: textOrNull('Field managers that changed it (Kubernetes), or the other program.'),
  recognisedBy: textOrNull('How the caller was recognised, such as `session` or `basic`.'),
  roles: Type.Array(Type.String(), { description: 'Roles of the caller.' }),
  address: textOrNull('Address of the caller.'),
  call: textOrNull('Method and path of the call.'),
  requestId: textOrNull('Id of the request, as its answer and the log have it.'),
  before: Type.Unknown({ description: 'Its fields as they were, secrets masked; null: it was not there.' }),
  after: Type.Unknown({ description: 'Its fields as they are; null: it is gone.' }),
});
export type AuditedChange = Answer<typeof AuditedChange>;

export const AuditPage = Type.Object({
  changes: Type.Array(AuditedChange, { description: 'Newest first.' }),
  next: textOrNull('Value of `after` for the changes before these; null: there are no more.'),
});
export type AuditPage = Answer<typeof AuditPage>;
