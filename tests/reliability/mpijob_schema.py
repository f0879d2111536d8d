"""Schema of launch/cluster/mpijob.yaml.

Contains every field of a job in the CustomResourceDefinition of kubeflow.org/v2beta1, and the used fields of pods.
"""


def _an_object(properties, required=()):
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
NUMBER = {"type": "integer", "minimum": 0}
AT_LEAST_ONE = {"type": "integer", "minimum": 1}
QUANTITIES = {"type": "object", "additionalProperties": {"type": "string",
                                                         "pattern": r"^[0-9]+(\.[0-9]+)?(m|[KMGTPE]i?)?$"}}
CONTAINER = _an_object({
    "name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    "image": TEXT,
    "workingDir": TEXT,
    "command": TEXTS,
    "env": {"type": "array", "items": _an_object({"name": TEXT, "value": TEXT}, ["name"])},
    "lifecycle": _an_object({"preStop": _an_object({"exec": _an_object({"command": TEXTS})})}),
    "resources": _an_object({"limits": QUANTITIES, "requests": QUANTITIES}),
    "volumeMounts": {"type": "array", "items": _an_object({"name": TEXT, "mountPath": TEXT}, ["name", "mountPath"])},
}, ["name", "image", "command"])
VOLUME = _an_object({
    "name": TEXT,
    "persistentVolumeClaim": _an_object({"claimName": TEXT}, ["claimName"]),
    "emptyDir": _an_object({"medium": {"enum": ["", "Memory"]}}),
}, ["name"])
REPLICA = _an_object({
    "replicas": AT_LEAST_ONE,
    "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
    "template": _an_object({"spec": _an_object({
        "terminationGracePeriodSeconds": NUMBER,
        "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
        "volumes": {"type": "array", "items": VOLUME},
    }, ["containers"])}, ["spec"]),
}, ["template"])
MPIJOB = _an_object({
    "apiVersion": {"const": "kubeflow.org/v2beta1"},
    "kind": {"const": "MPIJob"},
    "metadata": _an_object({"name": TEXT}, ["name"]),
    "spec": _an_object({
        "slotsPerWorker": AT_LEAST_ONE,
        "runLauncherAsWorker": {"type": "boolean"},
        "sshAuthMountPath": TEXT,
        "launcherCreationPolicy": {"enum": ["AtStartup", "WaitForWorkersReady"]},
        "mpiImplementation": {"enum": ["OpenMPI", "Intel", "MPICH"]},
        "runPolicy": _an_object({
            "cleanPodPolicy": {"enum": ["All", "Running", "None"]},
            "ttlSecondsAfterFinished": NUMBER,
            "activeDeadlineSeconds": AT_LEAST_ONE,
            "backoffLimit": NUMBER,
            "schedulingPolicy": {"type": "object"},
            "suspend": {"type": "boolean"},
            "managedBy": TEXT,
        }),
        "mpiReplicaSpecs": _an_object({"Launcher": REPLICA, "Worker": REPLICA}, ["Launcher", "Worker"]),
    }, ["mpiReplicaSpecs"]),
}, ["apiVersion", "kind", "metadata", "spec"])
