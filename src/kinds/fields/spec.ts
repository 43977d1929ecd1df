import { type Static, type TObject, type TProperties, type TSchemaOptions, Type } from 'typebox';
import { type CelRule, cel } from '../../model/cel.ts';
import type { Problem } from '../../model/errors.ts';
import { HOST_PATTERN_FORM } from '../../model/hostPattern.ts';
import type { LabelSelectorSpec } from '../../model/labelSelector.ts';

/** Builders of the schemas of specs. CEL rules are checked by the API server. */
type Options = TSchemaOptions & Readonly<Record<string, unknown>>;

/** An optional text. */
export const optionalText = (description: string, options: Options = {}, ...rules: readonly CelRule<string>[]) =>
  Type.Optional(Type.String({ ...options, ...celOf(rules), description }));

/** An optional whole number. */
export const optionalInteger = (minimum: number, maximum: number, description: string, options: Options = {}) =>
  Type.Optional(Type.Integer({ minimum, maximum, ...options, description }));

/** An optional truth value. */
export const optionalFlag = (description: string, options: Options = {}) =>
  Type.Optional(Type.Boolean({ ...options, description }));

/** `spec.suspend`. @param description effect of `true` */
export const suspendField = (description: string) => optionalFlag(description, { default: false });

/** One of several texts. */
export const literals = <const T extends string>(values: readonly T[], description: string, options: Options = {}) =>
  Type.Unsafe<T>(
    Type.Union(
      values.map((value) => Type.Literal(value)),
      { ...options, description },
    ),
  );

/** An optional one of several texts. */
export const optionalChoice = <const T extends string>(...parameters: Parameters<typeof literals<T>>) =>
  Type.Optional(literals<T>(...parameters));

/** An object without other fields. */
export const closedObject = <P extends TProperties>(
  fields: P,
  description: string,
  ...rules: readonly CelRule<Static<TObject<P>>>[]
) => Type.Object(fields, { additionalProperties: false, description, ...celOf(rules) });

export const PORT_FORM = 'port must be the name of a port, such as http, or a number from 1 to 65535';

/** A port of a Service, by name or number (Kubernetes: IntOrString). */
export const portField = (description: string) =>
  Type.Unsafe<string | number>({
    'x-kubernetes-int-or-string': true,
    anyOf: [
      { type: 'integer', minimum: 1, maximum: 65535 },
      { type: 'string', pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' },
    ],
    description,
    ...cel([
      "type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
      PORT_FORM,
    ]),
  });

/** Replaces the problem of a port, of whose two forms only one is named otherwise. @param field such as `spec.port` */
export function portProblem(problem: Problem, field: string): Problem {
  return problem.field === field ? { field, message: PORT_FORM.slice('port '.length) } : problem;
}

/** A match of a text, such as the name of a user. */
export const StringMatch = closedObject(
  {
    type: optionalChoice(
      ['Exact', 'Prefix', 'RegularExpression'],
      "How the value matches: Exact, Prefix, or RegularExpression (Java's syntax) for the whole text.",
      { default: 'Exact' },
    ),
    value: Type.String({ minLength: 1, maxLength: 512, description: 'Text, its beginning, or a regular expression.' }),
  },
  'A match of a text.',
);
export type StringMatch = Static<typeof StringMatch>;

/** An optional list of matches, of which one must match. */
export const optionalMatches = (description: string) =>
  Type.Optional(
    Type.Array(StringMatch, { minItems: 1, maxItems: 64, description: `${description}; one of them matches.` }),
  );

/** Hosts that a Secret may be sent to. */
export const credentialsHostsField = (description: string) =>
  Type.Optional(
    Type.Array(
      Type.String({
        ...{ pattern: HOST_PATTERN_FORM, minLength: 1, maxLength: 253 },
        ...cel([
          `self.matches(r'${HOST_PATTERN_FORM}')`,
          'credentialsHosts must have hosts such as trino.example, trino.example:8443 or *.trino.svc',
        ]),
      }),
      { minItems: 1, maxItems: 32, description },
    ),
  );

/** Form of the key of a label. */
export const labelKey = {
  pattern: '^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$',
  minLength: 1,
  maxLength: 317,
};
const labelValue = { pattern: '^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$', maxLength: 63 };

/** A requirement of a selector (Kubernetes: LabelSelectorRequirement). */
const Requirement = closedObject(
  {
    key: Type.String({ ...labelKey, description: 'Key of the label.' }),
    operator: literals(['In', 'NotIn', 'Exists', 'DoesNotExist'], 'In, NotIn, Exists or DoesNotExist.'),
    values: Type.Optional(
      Type.Array(Type.String(labelValue), { maxItems: 64, description: 'Values of In and NotIn.' }),
    ),
  },
  'Requirement to a label.',
  [
    "self.operator in ['In', 'NotIn'] ? (has(self.values) && size(self.values) > 0) : (!has(self.values) || size(self.values) == 0)",
    'values must be set with In and NotIn, and with no other operator',
    ({ operator, values = [] }) => (/In$/.test(operator) === (values.length === 0) ? '' : null),
  ],
);

/** A selector of labels (Kubernetes: LabelSelector). */
export const labelSelector = (description: string, ...rules: readonly CelRule<LabelSelectorSpec>[]) =>
  Type.Object(
    {
      matchLabels: Type.Optional(
        Type.Unsafe<Readonly<Record<string, string>>>({
          type: 'object',
          propertyNames: { type: 'string', ...labelKey },
          additionalProperties: { type: 'string', ...labelValue },
          maxProperties: 64,
          description: 'Labels that an object has.',
        }),
      ),
      matchExpressions: Type.Optional(
        Type.Array(Requirement, { maxItems: 64, description: 'Requirements to its labels, all of them met.' }),
      ),
    },
    // Whole, as Kubernetes' own: an apply that empties it would leave null.
    { additionalProperties: false, description, 'x-kubernetes-map-type': 'atomic', ...celOf(rules) },
  );

/** `namespaces` of a spec: by names or by labels. */
export const namespacesField = (description: string) =>
  closedObject(
    {
      names: Type.Optional(
        Type.Array(Type.String({ pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', minLength: 1, maxLength: 63 }), {
          minItems: 1,
          maxItems: 64,
          description: 'Names of the namespaces.',
        }),
      ),
      selector: Type.Optional(labelSelector('Labels of the namespaces; an empty selector selects all.')),
    },
    description,
    [
      'has(self.names) != has(self.selector)',
      'namespaces must have either names or selector; selector: {} selects all',
      ({ names, selector }) => ((names === undefined) === (selector === undefined) ? '' : null),
    ],
  );
export type Namespaces = Static<ReturnType<typeof namespacesField>>;

function celOf(rules: readonly CelRule[]): object {
  return rules.length === 0 ? {} : cel(...rules);
}

/** Maximum limit of concurrent queries, of a cluster, a routing group or a query limit. */
export const MAX_RUNNING_QUERIES = 1_000_000;

export const MAX_QUEUED_QUERIES = 100_000;

/** Converts a value of an enum of a spec to the name in policies, configuration and metrics: `LeastLoaded` to `leastLoaded`. */
export function uncapitalized<T extends string>(value: T): Uncapitalize<T> {
  return `${value.charAt(0).toLowerCase()}${value.slice(1)}` as Uncapitalize<T>;
}

/** Converts such a name to the value in a spec: `leastLoaded` to `LeastLoaded`. */
export function capitalized<T extends string>(name: T): Capitalize<T> {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}` as Capitalize<T>;
}
