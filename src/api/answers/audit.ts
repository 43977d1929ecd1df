import { Type } from 'typebox';
import { auditActions, auditSources } from '../../store/audit.ts';
import { type Answer, nullable } from './answer.ts';

const oneOf = <const Names extends readonly string[]>(names: Names, description: string) =>
  Type.Unsafe<Names[number]>({ type: 'string', enum: [...names], description });

export const AuditedChange = Type.Object({
  id: Type.String(),
  at: Type.String({ format: 'date-time', description: 'When it was made, or first seen.' }),
  source: oneOf(
    auditSources,
    '`rest`: a call or the pages; `kubernetes`: kubectl, GitOps; `file`: manifests or the rules file; `database`: another program; `gateway`: the gateway itself.',
  ),
  action: oneOf(auditActions, 'What was done.'),
  kind: Type.String({ description: 'Kind of resource, or what else changed, such as `QueuedQuery`.' }),
  namespace: nullable(Type.String(), 'Of its resource.'),
  name: Type.String({ description: 'Name that it is listed by: of a cluster that in the registry.' }),
  object: Type.String({ description: 'In words.' }),
  user: nullable(Type.String(), 'Who called; null where no call did it.'),
  manager: nullable(Type.String(), 'Field managers that changed it (Kubernetes), or the other program.'),
  recognisedBy: nullable(Type.String(), 'How the caller was recognised, such as `session` or `basic`.'),
  roles: Type.Array(Type.String(), { description: 'Roles of the caller.' }),
  address: nullable(Type.String(), 'Address of the caller.'),
  call: nullable(Type.String(), 'Method and path of the call.'),
  requestId: nullable(Type.String(), 'Id of the request, as its answer and the log have it.'),
  before: Type.Unknown({ description: 'Its fields as they were, secrets masked; null: it was not there.' }),
  after: Type.Unknown({ description: 'Its fields as they are; null: it is gone.' }),
});
export type AuditedChange = Answer<typeof AuditedChange>;

export const AuditPage = Type.Object({
  changes: Type.Array(AuditedChange, { description: 'Newest first.' }),
  next: nullable(Type.String(), 'Value of `after` for the changes before these; null: there are no more.'),
});
export type AuditPage = Answer<typeof AuditPage>;
