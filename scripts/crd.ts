import { column, conditionColumn, type PrinterColumn, type ResourceKind } from '../src/kinds/resourceKind.ts';
import { cel } from '../src/model/cel.ts';
import { API_GROUP, kindVersion } from '../src/model/resource.ts';

const age: PrinterColumn = column('Age', 'date', 'metadata.creationTimestamp', 'Time since the resource was created.');

const isReady = conditionColumn('Ready', 'Accepted and in use.');

const gatewayClass: PrinterColumn = column(
  'Class',
  'string',
  'spec.gatewayClassName',
  'Class of the gateway that it is for.',
  1,
);

const message: PrinterColumn = column(
  'Message',
  'string',
  'status.conditions[?(@.type=="Ready")].message',
  'Why it is ready or not.',
  1,
);

const suspend: PrinterColumn = column('Suspend', 'boolean', 'spec.suspend', 'The gateway does not act on it.');

/** Keywords of JSON schema that a structural schema keeps. */
const retainedKeywords = [
  'description',
  'default',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'maxProperties',
  'x-kubernetes-validations',
  'x-kubernetes-list-type',
  'x-kubernetes-map-type',
] as const;

type JsonSchema = Readonly<Record<string, unknown>>;

/** Turns a schema of ours into a structural one (Kubernetes: "Specifying a structural schema"). */
function structural(schema: JsonSchema): JsonSchema {
  const keywords: Record<string, unknown> = {};
  for (const keyword of retainedKeywords) if (schema[keyword] !== undefined) keywords[keyword] = schema[keyword];
  if (schema['x-kubernetes-int-or-string'] === true) {
    // The API server checks no more of it where both forms are allowed; the gateway does.
    const anyOf = [{ type: 'integer' }, { type: 'string' }];
    return { ...keywords, anyOf, 'x-kubernetes-int-or-string': true };
  }
  const choices = schema.anyOf as readonly { readonly const: string }[] | undefined;
  if (choices !== undefined) return { ...keywords, type: 'string', enum: choices.map((literals) => literals.const) };
  switch (schema.type) {
    case 'object': {
      const { additionalProperties } = schema;
      if (typeof additionalProperties === 'object') {
        return { ...keywords, type: 'object', additionalProperties: structural(additionalProperties as JsonSchema) };
      }
      const properties = schema.properties as Readonly<Record<string, JsonSchema>>;
      const required = (schema.required ?? []) as readonly string[];
      return {
        ...keywords,
        type: 'object',
        // The API server drops what is empty: it would show as drift in GitOps tools, and as a conflict when applied.
        ...(required.length === 0 ? {} : { required }),
        ...(Object.keys(properties).length === 0
          ? {}
          : {
              properties: Object.fromEntries(
                Object.entries(properties).map(([name, value]) => [name, structural(value)]),
              ),
            }),
      };
    }
    case 'array':
      return {
        ...keywords,
        type: 'array',
        'x-kubernetes-list-type': 'atomic',
        items: structural(schema.items as JsonSchema),
      };
    case 'integer':
      return { ...keywords, type: 'integer', format: 'int32' };
    case 'string':
      // If a CEL rule describes it in words, the pattern is left to the gateway: its message would come first.
      return {
        ...keywords,
        type: 'string',
        ...(schema['x-kubernetes-validations'] === undefined && schema.pattern !== undefined
          ? { pattern: schema.pattern }
          : {}),
      };
    default:
      return { ...keywords, type: schema.type };
  }
}

const conditions = {
  type: 'array',
  description: 'Conditions; Ready sums them up.',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: {
    type: 'object',
    description: 'A condition, as metav1.Condition.',
    required: ['lastTransitionTime', 'message', 'reason', 'status', 'type'],
    properties: {
      type: { type: 'string', maxLength: 316, description: 'CamelCase name of the condition.' },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'], description: 'True, False or Unknown.' },
      reason: {
        type: 'string',
        minLength: 1,
        maxLength: 1024,
        description: 'CamelCase reason of the last transition.',
      },
      message: { type: 'string', maxLength: 32_768, description: 'What is so and what to do, for people.' },
      observedGeneration: {
        type: 'integer',
        format: 'int64',
        minimum: 0,
        description: 'Generation of the spec that the condition is about.',
      },
      lastTransitionTime: { type: 'string', format: 'date-time', description: 'When the status changed last.' },
    },
  },
};

/** A CustomResourceDefinition as a plain object, ready to be written as YAML. */
export function customResourceDefinition(kind: ResourceKind): object {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${API_GROUP}` },
    spec: {
      group: API_GROUP,
      scope: kind.isClusterScoped ? 'Cluster' : 'Namespaced',
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        shortNames: [kind.shortName],
        categories: ['enginegateway'],
      },
      versions: [
        {
          name: kindVersion(kind.kind),
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: [isReady, ...kind.columns, suspend, gatewayClass, message, age],
          selectableFields: [...kind.selectableFields, '.spec.suspend'].map((jsonPath) => ({ jsonPath })),
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: kind.description,
              required: ['spec'],
              ...(kind.objectRules.length === 0 ? {} : cel(...kind.objectRules)),
              properties: {
                apiVersion: { type: 'string', description: 'Version of the schema of this object.' },
                kind: { type: 'string', description: 'Kind of this object.' },
                metadata: { type: 'object' },
                spec: structural(kind.spec as unknown as JsonSchema),
                status: {
                  type: 'object',
                  description: 'State as the gateway last saw it.',
                  properties: {
                    observedGeneration: {
                      type: 'integer',
                      format: 'int64',
                      description: 'Generation of the spec that the status is about.',
                    },
                    ...kind.statusProperties,
                    conditions,
                  },
                },
              },
            },
          },
        },
      ],
    },
  };
}

/** Path of a kind's CRD in the project, named as controller-gen names them. */
export function crdPath(kind: ResourceKind): string {
  return `crds/${API_GROUP}_${kind.plural}.yaml`;
}
