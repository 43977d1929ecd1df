import { ActionIcon, Alert, Button, Group, Paper, Text, TextInput, Title } from '@mantine/core';
import { IconInfoCircle, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { type FormEvent, useState } from 'react';
import { useSearchParams } from 'react-router';
import { ApiError } from '../../client/apiError.ts';
import { type Change, type ResourceGroups, useChange, useResourceGroups } from '../../client/resourceGroups.ts';
import type { GlobalProperty, ResourceGroup, Selector } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../../components/notify.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { EmptyState } from '../../components/states.tsx';
import { useRole } from '../../session/session.ts';
import {
  groupData,
  groupFields,
  groupValues,
  propertyFields,
  propertyValues,
  selectorData,
  selectorFields,
  selectorValues,
} from './forms.ts';
import { GroupTree, type TreeActions } from './GroupTree.tsx';
import { RecordForm, type Values } from './RecordForm.tsx';
import classes from './resourceGroups.module.css';
import { groupTree } from './tree.ts';

/** What is open beside the tree. Of a new record there are the values that it begins with. */
type Opened =
  | { readonly kind: 'group'; readonly edited: ResourceGroup | null; readonly begin: Partial<ResourceGroup> }
  | { readonly kind: 'selector'; readonly edited: Selector | null; readonly begin: Partial<Selector> }
  | { readonly kind: 'property'; readonly edited: GlobalProperty | null }
  | null;

const newGroup = { maxQueued: 100, hardConcurrencyLimit: 10, softMemoryLimit: '80%' };

/** Resource Groups: the tree with its selectors, global properties, and the database that they are in. */
export default function ResourceGroupsPage() {
  const [parameters, setParameters] = useSearchParams();
  const database = parameters.get('useSchema') ?? '';
  const query = useResourceGroups(database);
  const mayWrite = useRole('ADMIN');
  const [opened, setOpened] = useState<Opened>(null);
  const change = useChange(database);
  const store = async (what: string, made: Change) => {
    notifyWritten(`${what}.`, await change.mutateAsync(made));
  };
  const remove = async (what: string, text: string, made: Change) => {
    if (!(await confirm({ title: `Delete ${what}?`, text, action: 'Delete', dangerous: true }))) return;
    try {
      await store(`${what} is deleted`, made);
    } catch (error) {
      notifyFailed(`${what} could not be deleted`, error);
    }
  };
  const actions: TreeActions = {
    addGroup: ({ resourceGroupId, environment }) =>
      setOpened({
        kind: 'group',
        edited: null,
        begin: { ...newGroup, parent: resourceGroupId, ...(environment === undefined ? {} : { environment }) },
      }),
    editGroup: (edited) => setOpened({ kind: 'group', edited, begin: edited }),
    deleteGroup: ({ resourceGroupId, name }) =>
      void remove(name, 'Queries that only its selectors took are refused by the engines.', {
        path: 'deleteResourceGroup',
        data: { resourceGroupId },
      }),
    addSelector: ({ resourceGroupId }) =>
      setOpened({ kind: 'selector', edited: null, begin: { resourceGroupId, priority: 1 } }),
    editSelector: (edited) => setOpened({ kind: 'selector', edited, begin: edited }),
    deleteSelector: (selector) =>
      void remove('the selector', 'Queries that it took go to the next selector that matches.', {
        path: 'deleteSelector',
        data: selector,
      }),
  };
  const addRoot = (
    <Button
      size="sm"
      leftSection={<IconPlus size={16} aria-hidden />}
      onClick={() => setOpened({ kind: 'group', edited: null, begin: newGroup })}
    >
      Add a resource group
    </Button>
  );
  const isOff = query.error instanceof ApiError && query.error.status === 404 && database === '';
  return (
    <PageFrame title="Resource Groups" actions={mayWrite && !isOff ? addRoot : undefined}>
      {!isOff && (
        <DatabaseChoice
          key={database}
          database={database}
          onChoose={(name) => setParameters(name === '' ? {} : { useSchema: name })}
        />
      )}
      {isOff ? (
        <Alert color="blue" icon={<IconInfoCircle aria-hidden />} title="Switched off">
          resourceGroups.enabled is false: this gateway keeps no resource groups.
        </Alert>
      ) : (
        <QueryState query={query} label="Loading resource groups">
          {(data) => (
            <>
              {data.groups.length === 0 ? (
                <EmptyState title="There are no resource groups in this database." />
              ) : (
                <GroupTree
                  nodes={groupTree(data.groups)}
                  selectors={data.selectors}
                  actions={mayWrite ? actions : null}
                />
              )}
              <Properties
                properties={data.properties}
                mayWrite={mayWrite}
                onEdit={(edited) => setOpened({ kind: 'property', edited })}
                onDelete={({ name }) =>
                  void remove(name, 'CPU limits of groups have no effect without it.', {
                    path: 'deleteGlobalProperty',
                    data: { name },
                  })
                }
              />
              {opened !== null && <Form opened={opened} data={data} store={store} onClose={() => setOpened(null)} />}
            </>
          )}
        </QueryState>
      )}
    </PageFrame>
  );
}

interface DatabaseChoiceProps {
  readonly database: string;
  readonly onChoose: (name: string) => void;
}

function DatabaseChoice({ database, onChoose }: DatabaseChoiceProps) {
  const [name, setName] = useState(database);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onChoose(name.trim());
  };
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Database"
          description="Another one of the same server (useSchema)"
          placeholder="the gateway's own"
          className={classes.database ?? ''}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Group>
    </form>
  );
}

interface PropertiesProps {
  readonly properties: readonly GlobalProperty[];
  readonly mayWrite: boolean;
  readonly onEdit: (property: GlobalProperty | null) => void;
  readonly onDelete: (property: GlobalProperty) => void;
}

function Properties({ properties, mayWrite, onEdit, onDelete }: PropertiesProps) {
  return (
    <Paper withBorder p="sm" component="section" aria-label="Global properties">
      <Title order={2}>Global properties</Title>
      {properties.length === 0 && (
        <Text size="sm" mt="xs">
          cpu_quota_period is not set: CPU limits have no effect.
        </Text>
      )}
      {properties.map((property) => (
        <Group key={property.name} gap="xs" mt="xs">
          <Text size="sm">
            {property.name} = {property.value ?? 'null'}
          </Text>
          {mayWrite && (
            <>
              <ActionIcon aria-label={`Edit ${property.name}`} onClick={() => onEdit(property)}>
                <IconPencil size={18} aria-hidden />
              </ActionIcon>
              <ActionIcon aria-label={`Delete ${property.name}`} onClick={() => onDelete(property)}>
                <IconTrash size={18} aria-hidden />
              </ActionIcon>
            </>
          )}
        </Group>
      ))}
      {mayWrite && properties.length === 0 && (
        <Button size="xs" variant="default" mt="xs" onClick={() => onEdit(null)}>
          Set cpu_quota_period
        </Button>
      )}
    </Paper>
  );
}

interface FormProps {
  readonly opened: NonNullable<Opened>;
  readonly data: ResourceGroups;
  readonly store: (what: string, change: Change) => Promise<void>;
  readonly onClose: () => void;
}

/** The dialog of what is open. */
function Form({ opened, data: { groups, selectors }, store, onClose }: FormProps) {
  switch (opened.kind) {
    case 'group': {
      const { edited, begin } = opened;
      const save = (values: Values) =>
        edited === null
          ? store(`${values.name} is created`, { path: 'saveResourceGroup', data: groupData(values) })
          : store(`${values.name} is changed`, {
              path: 'updateResourceGroup',
              data: { ...groupData(values), resourceGroupId: edited.resourceGroupId },
            });
      const title = edited === null ? 'Add a resource group' : `Edit ${edited.name}`;
      const fields = groupFields(groups, edited);
      return <RecordForm title={title} fields={fields} values={groupValues(begin)} onSave={save} onClose={onClose} />;
    }
    case 'selector': {
      const { edited, begin } = opened;
      const save = (values: Values) => {
        const data = selectorData(values);
        return edited === null
          ? store('The selector is created', { path: 'saveSelector', data })
          : store('The selector is changed', { path: 'updateSelector', data, oldData: edited });
      };
      const migrated = selectors.some(({ id }) => id !== undefined);
      const title = edited === null ? 'Add a selector' : 'Edit the selector';
      const fields = selectorFields(groups, migrated);
      return (
        <RecordForm title={title} fields={fields} values={selectorValues(begin)} onSave={save} onClose={onClose} />
      );
    }
    case 'property': {
      const { edited } = opened;
      const path = edited === null ? 'saveGlobalProperty' : 'updateGlobalProperty';
      const save = (values: Values) => store(`${values.name} is set`, { path, data: values });
      const title = edited === null ? 'Set a global property' : `Edit ${edited.name}`;
      const values = propertyValues(edited ?? {});
      return <RecordForm title={title} fields={propertyFields} values={values} onSave={save} onClose={onClose} />;
    }
  }
}
