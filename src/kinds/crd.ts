import type { TSchema } from 'typebox';
import { API_GROUP, API_VERSION, type Kind } from '../model/resource.ts';
import { EngineClusterSpec } from './engineCluster/spec.ts';
import { RoutingRuleSpec } from './routingRule/spec.ts';

/** A column of `kubectl get` (CustomResourceColumnDefinition). */
interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  readonly jsonPath: string;
  readonly description: string;
  /** 0: always shown; 1: with `-o wide`. */
  readonly priority?: number;
}

/** What differs between the kinds. */
interface KindDefinition {
  readonly kind: Kind;
  readonly plural: string;
  readonly singular: string;
  readonly shortName: string;
  readonly description: string;
  readonly spec: TSchema;
  readonly statusProperties: Readonly<Record<string, object>>;
  readonly columns: readonly PrinterColumn[];
  readonly selectableFields: readonly string[];
}

const conditionColumn = (type: string, description: string, priority = 0): PrinterColumn => ({
  name: type,
  type: 'string',
  jsonPath: `.status.conditions[?(@.type=="${type}")].status`,
  description,
  ...(priority === 0 ? {} : { priority }),
});

const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since the resource was created.',
};

/** The kinds of the API group: one table, so that adding a kind is adding an entry. */
export const kindDefinitions: readonly KindDefinition[] = [
  {
    kind: 'EngineCluster',
    plural: 'engineclusters',
    singular: 'enginecluster',
    shortName: 'ec',
    description: 'EngineCluster is a query engine cluster behind the gateway.',
    spec: EngineClusterSpec,
    statusProperties: {
      active: {
        type: 'boolean',
        description: 'Effective value of spec.active: an override by annotation goes before it.',
      },
      proxyTo: { type: 'string', description: 'URL in use: spec.proxyTo, or what spec.serviceRef resolved to.' },
    },
    columns: [
      { name: 'Group', type: 'string', jsonPath: '.spec.routingGroup', description: 'Routing group.' },
      { name: 'Active', type: 'boolean', jsonPath: '.status.active', description: 'Takes new queries.' },
      conditionColumn('Healthy', 'The last health check was good.'),
      conditionColumn('Ready', 'Accepted, in the routing table and in the database.'),
      { name: 'URL', type: 'string', jsonPath: '.status.proxyTo', description: 'URL in use.', priority: 1 },
      {
        name: 'Override',
        type: 'string',
        jsonPath: '.status.conditions[?(@.type=="Active")].reason',
        description: 'Why it is active or not.',
        priority: 1,
      },
      age,
    ],
    selectableFields: ['.spec.routingGroup', '.spec.active'],
  },
  {
    kind: 'RoutingRule',
    plural: 'routingrules',
    singular: 'routingrule',
    shortName: 'rr',
    description: 'RoutingRule chooses the routing group of requests.',
    spec: RoutingRuleSpec,
    statusProperties: {
      routesTo: { type: 'string', description: 'Where the rule sends requests, in short.' },
    },
    columns: [
      { name: 'Priority', type: 'integer', jsonPath: '.spec.priority', description: 'Lower fires earlier.' },
      { name: 'Routes to', type: 'string', jsonPath: '.status.routesTo', description: 'Where it sends requests.' },
      conditionColumn('Accepted', 'The rule compiles and is in force.'),
      conditionColumn('Programmed', 'The rule is in the routing table.', 1),
      age,
    ],
    selectableFields: ['.spec.priority', '.spec.suspended'],
  },
];

/** Keywords of JSON schema that a structural schema keeps. */
const keptKeywords = [
  'description',
  'default',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'x-kubernetes-validations',
  'x-kubernetes-list-type',
] as const;

type JsonSchema = Readonly<Record<string, unknown>>;

/** Turns a schema of ours into a structural one (Kubernetes: "Specifying a structural schema"). */
function structural(schema: JsonSchema): JsonSchema {
  const kept: Record<string, unknown> = {};
  for (const keyword of keptKeywords) if (schema[keyword] !== undefined) kept[keyword] = schema[keyword];
  const choices = schema.anyOf as readonly { readonly const: string }[] | undefined;
  if (choices !== undefined) return { ...kept, type: 'string', enum: choices.map((choice) => choice.const) };
  switch (schema.type) {
    case 'object': {
      const properties = schema.properties as Readonly<Record<string, JsonSchema>>;
      const required = (schema.required ?? []) as readonly string[];
      return {
        ...kept,
        type: 'object',
        // An empty list would show as drift in GitOps tools.
        ...(required.length === 0 ? {} : { required }),
        properties: Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, structural(value)])),
      };
    }
    case 'array':
      return {
        ...kept,
        type: 'array',
        'x-kubernetes-list-type': 'atomic',
        items: structural(schema.items as JsonSchema),
      };
    case 'integer':
      return { ...kept, type: 'integer', format: 'int32' };
    case 'string':
      // Where a CEL rule says the same in words, the pattern is left to the gateway: its message would come first.
      return {
        ...kept,
        type: 'string',
        ...(schema['x-kubernetes-validations'] === undefined && schema.pattern !== undefined
          ? { pattern: schema.pattern }
          : {}),
      };
    default:
      return { ...kept, type: schema.type };
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
export function customResourceDefinition(definition: KindDefinition): object {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${definition.plural}.${API_GROUP}` },
    spec: {
      group: API_GROUP,
      scope: 'Namespaced',
      names: {
        kind: definition.kind,
        listKind: `${definition.kind}List`,
        plural: definition.plural,
        singular: definition.singular,
        shortNames: [definition.shortName],
        categories: ['engine-gateway'],
      },
      versions: [
        {
          name: API_VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: definition.columns,
          selectableFields: definition.selectableFields.map((jsonPath) => ({ jsonPath })),
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: definition.description,
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string', description: 'Version of the schema of this object.' },
                kind: { type: 'string', description: 'Kind of this object.' },
                metadata: { type: 'object' },
                spec: structural(definition.spec as unknown as JsonSchema),
                status: {
                  type: 'object',
                  description: 'State as the gateway last saw it.',
                  properties: {
                    observedGeneration: {
                      type: 'integer',
                      format: 'int64',
                      description: 'Generation of the spec that the status is about.',
                    },
                    ...definition.statusProperties,
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
export function crdPath(definition: KindDefinition): string {
  return `crds/${API_GROUP}_${definition.plural}.yaml`;
}
