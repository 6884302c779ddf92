"""The pages of the reference: what each is about, and its names in the order in which a reader needs them."""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A page: its file, title and lead, and by module the names on it."""

    file: str
    title: str
    lead: str
    names: dict[str, str]


#: How the pages call the modules whose names are public.
MODULES = {
    "shiftdata": "sd",
    "shiftdata.errors": "errors",
    "shiftdata.evaluation.protocols": "protocols",
    "shiftdata.evaluation.sampling": "sampling",
    "shiftdata.evaluation.metrics": "metrics",
    "shiftdata.evaluation.label_shift": "label_shift",
    "shiftdata.evaluation.meters": "meters",
    "shiftdata.baselines": "baselines",
    "shiftdata.baselines.losses": "losses",
    "shiftdata.bench": "bench",
    "shiftdata.bench.papers": "papers",
}
TOPICS = (
    Topic(
        "load",
        "Load data",
        "Find a dataset, read its examples, stream it, fetch it to disk, check it.",
        {
            "shiftdata": "list_datasets info load_dataset webdataset fetch verify open_dataset",
        },
    ),
    Topic(
        "metadata",
        "Metadata",
        "Labels, nuisances, origins, folds and quantiles of every row, without an example: of a "
        "dataset, or of a table of yours.",
        {
            "shiftdata": "read_metadata metadata_from_table Metadata",
        },
    ),
    Topic(
        "tasks",
        "Tasks",
        "A task is named sets of rows of one dataset, each for training, selection or test. Make one "
        "by a protocol, load its rows, evaluate predictions, export it.",
        {
            "shiftdata": "task Task export",
        },
    ),
    Topic(
        "protocols",
        "Protocols: groups, adaptation",
        "A protocol is the rule that makes a task. `protocol` takes its name; the classes show the "
        "parameters of each, `Protocol` what all of them have.",
        {
            "shiftdata": "protocol rlsbench",
            "shiftdata.evaluation.protocols": (
                "protocols parse_protocol Protocol GroupFairness UDA UniDA SCENARIOS LabelShift"
            ),
        },
    ),
    Topic(
        "protocols_domains",
        "Protocols: domains, severities",
        "Protocols that hold out domains, choose severities, follow the authors' own splits, or join others.",
        {
            "shiftdata.evaluation.protocols": (
                "LeaveOneDomainOut LeaveOneGroupOut HoldOut DomainBed ClassicDG FlexibleDG Oracle "
                "OracleStar Continuous Official Listed Wilds EvaluateOnly Stream stream_of Where Chain"
            ),
        },
    ),
    Topic(
        "samplers",
        "Samplers",
        "Choose which rows a batch gets: groups equally often, each domain in every batch, a share of "
        "labels.",
        {
            "shiftdata.evaluation.sampling": (
                "make_sampler SAMPLERS Sampler RowSampler FixedRows Reweighted Batches CellBatches "
                "Ranks cells_of dirichlet_marginal"
            ),
        },
    ),
    Topic(
        "shift",
        "Kinds of shift",
        "Measure what differs between training and test; estimate the label shares of an unlabelled target.",
        {
            "shiftdata.evaluation.label_shift": (
                "estimate_marginal ESTIMATORS MarginalEstimate reweight EstimationError LabelShiftWarning"
            ),
            "shiftdata.evaluation.meters": (
                "measure_shifts Shifts Measure covariate_shift CovariateShift "
                "concept_shift_on_features ConceptShift bounds Bounds"
            ),
        },
    ),
    Topic(
        "metrics",
        "Metrics by group",
        "Accuracy of each group, the worst one, and how sure it is. `task.evaluate` uses these; they "
        "also take arrays.",
        {
            "shiftdata.evaluation.metrics": (
                "group_accuracy GroupAccuracy class_rates ClassRates worst_by_chance align bootstrap_rows "
                "Resampling Interval paired_test failure_points FailurePoints"
            ),
        },
    ),
    Topic(
        "more_metrics",
        "Calibration, lines, rankings",
        "What more than one accuracy says: confidence, models compared on clean and shifted rows, "
        "rankings of methods.",
        {
            "shiftdata.evaluation.metrics": (
                "measure_calibration Calibration risk_coverage RiskCoverage accuracy_line Line Point "
                "agreement_line Agreement ranks rank_agreement RankAgreement spearman "
                "selection_leakage"
            ),
        },
    ),
    Topic(
        "train",
        "Train",
        "Train a reference method on a task: its settings, and the run that comes back.",
        {
            "shiftdata": "train",
            "shiftdata.baselines": "METHODS Training TRAINING Run initial_network fit DivergedError",
        },
    ),
    Topic(
        "predict",
        "Predict and adapt",
        "Predict a task by a model that comes trained, or let it adapt to a stream of test rows.",
        {
            "shiftdata": "predict",
            "shiftdata.baselines": "load Pretrained Prediction Model adapt Adaptation",
        },
    ),
    Topic(
        "methods",
        "Methods of your own",
        "Subclass `Method`, name it, and `sd.train` and sweeps know it.",
        {
            "shiftdata.baselines": "Method method Hyper Batch Data Wrapper make_method method_class",
        },
    ),
    Topic(
        "trainer",
        "The trainer",
        "What a method gets to read rows, predict and take steps with.",
        {
            "shiftdata.baselines": "Trainer Stage Source source_of",
        },
    ),
    Topic(
        "losses",
        "Losses: groups and domains",
        "Functions of tensors for a loop of your own: plain losses, worst groups, features and "
        "gradients that agree between domains.",
        {
            "shiftdata": "losses",
            "shiftdata.baselines.losses": (
                "cross_entropy cross_entropies mean group_means rows_of_each GroupDRO jtt_weights dfr cnc "
                "eqrm coral mmd irm vrex Fishr sd mldg whitening rsc_mask StableNet check_1d exactly"
            ),
        },
    ),
    Topic(
        "losses_adaptation",
        "Losses: adaptation",
        "Losses that take unlabelled rows of a target with the classes of the source.",
        {
            "shiftdata.baselines.losses": (
                "dann cdan_map reverse_gradient reversal_schedule mcd jdot jdot_cost exact_transport "
                "ClassWeights class_weights entropy tent pseudo_label fixmatch sentry sentry_balance "
                "RecentShares"
            ),
        },
    ),
    Topic(
        "losses_unknown",
        "Losses: unknown classes",
        "Losses for a target that lacks classes of the source, and has others.",
        {
            "shiftdata.baselines.losses": (
                "uan_weights uan_scores osbp ovanet ovanet_unknown with_unknown UniOT "
                "balanced_transport unbalanced_plan unbalanced_scaling"
            ),
        },
    ),
    Topic(
        "losses_training",
        "Losses: mixing, averaging",
        "Mix rows and styles, average weights along a training, and pretrain without labels.",
        {
            "shiftdata.baselines.losses": (
                "mixup mixup_losses partners mixstyle style_mixed content_swapped "
                "uniform_cross_entropies amplitude_mix adversarial_step EMA ema_ WeightAverage SWAD "
                "ntxent info_nce KeyQueue distillation"
            ),
        },
    ),
    Topic(
        "sweeps",
        "Sweeps and reports",
        "Train many methods on many tasks into records; select models and report from these.",
        {
            "shiftdata.bench": (
                "presets read_sweep sweep_of folder_sweep Sweep price Price run_sweep progress_of Progress "
                "Records RULES Rule select Selected Study Chosen report Report"
            ),
        },
    ),
    Topic(
        "papers",
        "The papers' numbers",
        "What five papers print, as tables to choose from, rank and compare with results of your own.",
        {
            "shiftdata": "published",
            "shiftdata.bench.papers": (
                "PAPERS citation published_tables PublishedTable Results ranking Ranking"
            ),
        },
    ),
    Topic(
        "errors",
        "Errors",
        "Whatever shiftdata raises on purpose; each message says what was given, what is allowed and "
        "what to do.",
        {
            "shiftdata.errors": (
                "ShiftdataError InputError NotFoundError MissingExtraError IntegrityError LimitError "
                "ChangedError StorageError LockedError"
            ),
        },
    ),
)
#: The pages of the command line: title, and verbs.
COMMANDS = {
    "Find and read": "list info load fetch verify duplicates export gallery explore",
    "Train and evaluate": "task train evaluate predict adapt pretrain",
    "Sweep and report": "sweep report import submit leaderboard published",
    "Make": "new recipes raw build check card styles sliders calibrate",
    "Publish and serve": "publish serve catalog hide",
}
