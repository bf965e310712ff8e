package conformance

// Reasons that several rows share.
var (
	noBinding  = never("there is no binding of our own")
	noClient   = never("Parley passes on what its caller asks and begins nothing of this by itself")
	toOperator = never("the duty of whoever runs an agent, in their documents")
)

// Rows are all demands, in the order of the specification.
func Rows() []Row {
	var all []Row
	for _, part := range [][]Row{operationRows, parameterRows, conversationRows, dataRows, securityRows, bindingRows, guardRows} {
		all = append(all, part...)
	}
	return all
}

var operationRows = []Row{
	{1, "3.1.1", Must, Server, "SendMessage answers with a task or a message, never both or neither", "SendAnswersTaskOrMessage", "", ""},
	{2, "3.1.1", Must, Server, "a message to a task that has ended is an unsupported operation, for each of the four end states", "SendToEndedTaskIsUnsupported", "", ""},
	{3, "3.1.1", Must, Server, "a part of a media type the agent does not take is refused", "SendRefusesUnknownMediaType", "", ""},
	{4, "3.1.1, 3.4.2", Must, Server, "a message to a task that is unknown or not the caller's finds no task", "SendToUnknownTaskFindsNone", "", ""},
	{5, "3.1.2", Must, Server, "a stream is live: events arrive before the task is over", "StreamIsLive", "", ""},
	{6, "3.1.2", Must, Server, "a stream that answers with a message has one frame and ends", "MessageStreamHasOneFrame", "", ""},
	{7, "3.1.2", Must, Server, "a stream about a task begins with the task, also on a later turn", "TaskStreamBeginsWithTask", "", ""},
	{8, "3.1.2", Must, Server, "a stream ends when its task does, in each of the four end states", "TaskStreamEndsWithTask", "", ""},
	{9, "3.1.2", Must, Server, "streaming to a task that has ended is an unsupported operation", "StreamToEndedTaskIsUnsupported", "", ""},
	{10, "3.1.3, 3.3.2", Must, Server, "GetTask of an unknown task and of another's task read the same: no such task", "GetTaskHidesForeignTasks", "", ""},
	{11, "3.1.4, 13.1", Must, Server, "ListTasks shows the caller's tasks only, with and without filters", "ListTasksShowsOwnTasksOnly", "", ""},
	{12, "3.1.4", Must, Server, "walking the pages of ListTasks yields every task once", "ListTasksPagesYieldEveryTaskOnce", "", ""},
	{13, "3.1.4", Must, Server, "ListTasks has the newest status first", "ListTasksNewestFirst", "", ""},
	{14, "3.1.4", Must, Server, "nextPageToken is always there, and empty on the last page", "ListTasksAlwaysHasToken", "", ""},
	{15, "3.1.4", Must, Server, "without includeArtifacts no task in a list has the member artifacts", "ListTasksLeavesArtifactsOut", "", ""},
	{16, "3.1.4", Should, Server, "with includeArtifacts the artifacts are there in full", "ListTasksIncludesArtifacts", "", ""},
	{17, "proto", Must, Server, "a list has tasks, nextPageToken, pageSize and totalSize, empty or not", "ListTasksHasAllMembers", "", ""},
	{18, "proto, 6.5", Must, Server, "page sizes from 1 to 100 are taken, others refused; 50 is the default", "ListTasksPageSizeBounds", "", ""},
	{19, "proto", Must, Server, "statusTimestampAfter includes the very time", "ListTasksTimeIsInclusive", "", ""},
	{20, "3.1.5", Must, Server, "CancelTask returns the canceled task; a task that ended otherwise cannot be canceled", "CancelReturnsTask", "", ""},
	{21, "3.1.5", Must, Server, "CancelTask of an unknown task finds none", "CancelUnknownTask", "", ""},
	{22, "3.1.6", Must, Server, "SubscribeToTask begins with the task as it stands, and every later event follows", "SubscribeBeginsWithTask", "", ""},
	{23, "3.1.6", Must, Server, "a subscription ends when the task does", "SubscribeEndsWithTask", "", ""},
	{24, "3.1.6", Must, Server, "subscribing to a task that has ended is unsupported, to an unknown one finds none", "SubscribeNeedsLiveTask", "", ""},
	{25, "3.1.6", Must, Server, "a task can be subscribed to in every state but the end states", "SubscribeInEveryLiveState", "", ""},
	{26, "3.1.7", Must, Server, "a push configuration is kept until the task ends or it is deleted, and events are sent to it", "PushConfigIsKept", "", ""},
	{27, "3.1.8", Must, Server, "a push configuration can be read, by those who may", "PushConfigCanBeRead", "", ""},
	{28, "3.1.9", Must, Server, "all push configurations of a task are listed", "PushConfigsAreListed", "", ""},
	{29, "3.1.10", Must, Server, "deleting a push configuration is final and can be repeated", "PushConfigIsDeletedForGood", "", ""},
	{30, "3.1.11", Must, Client, "an extended card is asked for with a credential of a declared scheme", "ClientAuthenticatesForExtendedCard", "", ""},
	{31, "3.1.11, 13.3", Should, Client, "an extended card takes the place of the public one from then on", "ExtendedCardReplacesPublicCard", never("the protocol package keeps no cards"), ""},
}

var parameterRows = []Row{
	{32, "3.2.2", Must, Server, "sending waits by default until the task ends or waits for its caller, and returns artifacts and status", "SendWaitsByDefault", "", ""},
	{33, "3.2.2", Must, Server, "with returnImmediately the answer comes while the task is at work", "SendReturnsImmediately", "", ""},
	{34, "3.2.2", Must, Server, "returnImmediately leaves an inline push configuration in force", "ReturningAtOnceKeepsPushConfig", "", ""},
	{35, "proto", Should, Server, "acceptedOutputModes shape what the agent produces", "OutputModesAreRespected", "", ""},
	{36, "proto, 3.2.4", Must, Server, "no more than historyLength messages come back, and they are the latest", "HistoryIsTrimmed", "", ""},
	{37, "3.2.4", Should, Server, "with historyLength 0 there is no member history, in get, list and send", "HistoryZeroLeavesItOut", "", ""},
	{38, "3.3.2", Must, Server, "a missing or wrong credential is refused", "BadCredentialIsRefused", "", ""},
	{39, "3.3.2, 7.4", Should, Server, "such a refusal carries a challenge that names the scheme", "RefusalNamesScheme", "", ""},
	{40, "3.3.2", Must, Server, "a caller without permission gets an authorization error", "MissingPermissionIsRefused", "", ""},
	{41, "3.3.2", Should, Server, "such a refusal names the scope that is missing", "RefusalNamesScope", "", ""},
	{42, "3.3.2", Must, Server, "no operation tells whether a task exists that is not the caller's", "NothingTellsOfForeignTasks", "", ""},
	{43, "3.3.2, 13.4", Must, Server, "all input is checked before anything is done", "InputIsCheckedFirst", "", ""},
	{44, "3.3.2", Should, Server, "what is wrong with a request is told field by field, with the values allowed", "ErrorsNameFields", "", ""},
	{45, "3.3.2", Must, Server, "a resource that is missing or out of reach is not found", "MissingResourceIsNotFound", "", ""},
	{46, "3.3.2", Should, Server, "a failure that will pass reads differently from one that will not", "TemporaryFailuresDiffer", "", ""},
	{47, "3.3.2", Must, Server, "every error has a code and a message", "ErrorsHaveCodeAndMessage", "", ""},
	{48, "3.3.2", Must, Server, "every detail of an error has a type", "ErrorDetailsHaveType", "", ""},
	{49, "3.3.4", Must, Server, "without the push capability its four operations and an inline configuration say so", "PushIsNotSupported", "", ""},
	{50, "3.3.4", Must, Server, "without the streaming capability both streaming operations are unsupported", "StreamingIsNotSupported", "", ""},
	{51, "3.3.4", Must, Server, "an extended card that is not declared is unsupported; one that is declared and missing is not configured", "ExtendedCardIsNotSupported", "", ""},
	{52, "3.3.4", Must, Server, "a required extension that a request does not name is demanded", "RequiredExtensionIsDemanded", "", ""},
	untested(53, "3.3.4", Should, Client, "the card is looked at before an optional capability is used", noClient),
	{54, "3.3.1", Must, Server, "canceling twice has the effect of canceling once", "CancelIsIdempotent", "", ""},
}

var conversationRows = []Row{
	{55, "3.4.1", Must, Server, "a context that the agent made is named in its answer", "NewContextIsNamed", "", ""},
	{56, "3.4.1", Must, Server, "a contextId that cannot be taken is an error and never replaced by another", "BadContextIsRefused", "", ""},
	{57, "3.4.1", Should, Client, "a client invents no contextId", "ClientInventsNoContext", "", ""},
	{58, "3.4.1", Should, Server, "tasks of one contextId are one conversation", "ContextJoinsTasks", "", ""},
	{59, "3.4.2", Must, Server, "task ids are made by the agent and unique", "TaskIDsAreUnique", "", ""},
	{60, "3.4.3", Must, Server, "with a taskId alone the context is the task's", "TaskImpliesContext", "", ""},
	{61, "3.4.3", Must, Server, "a taskId with another task's contextId is refused", "MismatchedContextIsRefused", "", ""},
	{62, "3.4.3", Should, Both, "tasks that a message refers to are used, as far as they are the caller's", "ReferencesAreUsed", "", ""},
	{63, "3.5.2", Must, Server, "events keep their order", "EventsKeepOrder", "", ""},
	{64, "3.5.2", Must, Server, "all streams of a task show the same events in the same order", "StreamsShowTheSame", "", ""},
	{65, "3.5.2", Must, Server, "closing one stream touches neither the others nor the task", "ClosingOneStreamLeavesOthers", "", ""},
	{66, "3.6.1", Must, Client, "every request carries the version", "ClientSendsVersion", "", ""},
	{67, "3.6.2", Must, Server, "a request without a version is taken for 0.3, where the strict mode is on", "MissingVersionIsV03", "", ""},
	{68, "3.6.2", Must, Server, "a request that asks for 1.0 is served as 1.0, by header or query", "RequestedVersionIsServed", "", ""},
	{69, "3.6.2", Must, Server, "a version that is not spoken is refused", "UnknownVersionIsRefused", "", ""},
	{70, "3.6", Must, Both, "patch numbers do not count, and are not sent", "PatchNumbersDoNotCount", "", ""},
	{71, "3.6.3", Must, Both, "a client can choose among versions and bindings", "ClientChoosesInterface", "", never("a gateway chooses for its callers")},
	{72, "3.7", Should, Server, "results are artifacts", "ResultsAreArtifacts", "", ""},
	untested(73, "3.7", Must, Client, "a client does not rely on messages being kept", never("neither our client nor Parley reads history to learn a result")),
}

var dataRows = []Row{
	{74, "4.3.3, 13.2", Must, Server, "a push notification is authenticated as its configuration says", "PushIsAuthenticated", "", ""},
	{75, "4.3.3", Must, Client, "a receiver of push notifications answers 2xx and checks the task id", "ReceiverChecksTask", never("the reference agent receives no push notifications"), ""},
	{76, "4.3.3", Should, Client, "a receiver verifies the source and takes repetitions", "ReceiverTakesRepetitions", never("the reference agent receives no push notifications"), ""},
	{77, "4.3.3", Must, Server, "delivery to each configuration is tried at least once", "EveryConfigIsDeliveredTo", "", ""},
	{78, "4.3.3", Should, Server, "a delivery times out after 10 to 30 s", "DeliveryTimesOut", "", ""},
	untested(79, "4.6.3", Should, Server, "an extension's URI carries its version", never("Parley declares no extension of its own yet")),
	{80, "4.6.3", Should, Server, "another version of an extension is ignored, or demanded where it is required; never taken for the known one", "ExtensionVersionsAreExact", "", ""},
	{81, "5.1", Must, Server, "both bindings give the same results and the same errors", "BindingsAgree", "", ""},
	{82, "5.2", Must, Server, "the card lists every binding that is served", "CardListsBindings", "", ""},
	{83, "5.2", Should, Client, "a client goes on to the next interface that it can use", "ClientSkipsUnusableInterfaces", "", ""},
	{84, "5.4", Must, Server, "the nine errors have the codes of the table", "ErrorCodes", "", ""},
	{85, "5.5", Must, Both, "names are in camelCase", "NamesAreCamelCase", "", ""},
	{86, "5.5", Must, Both, "enumerations are written by their names", "EnumsAreNames", "", ""},
	{87, "5.6.1", Must, Both, "timestamps are UTC with Z, with milliseconds", "TimestampsAreUTC", "", ""},
	{88, "5.7", Must, Both, "required members are there, and requests without them are refused", "RequiredMembers", "", ""},
	{89, "5.7", Should, Both, "members nobody knows are no error", "UnknownMembersAreIgnored", "", ""},
	untested(90, "5.8", Should, Server, "a binding of one's own has a URI", noBinding),
}

var securityRows = []Row{
	{91, "7.1, 13.4", Must, Both, "TLS is served, 1.3 where the peer can, nothing before 1.2", "TLSIsServed", never("TLS is the listener's, and the protocol package has none"), ""},
	{92, "7.2", Should, Client, "a client verifies the server's certificate", "ClientVerifiesCertificate", "", ""},
	{93, "7.4", Must, Server, "every operation needs a credential of a declared scheme", "EveryOperationIsAuthenticated", "", ""},
	{94, "7.6.1", Must, Server, "a task that needs an authorization says so by its state and explains it", "AuthRequiredExplains", "", ""},
	{95, "7.6.1", Should, Server, "streams stay open while an authorization is awaited, and messages are taken", "AuthRequiredKeepsStreams", "", ""},
	untested(96, "7.6.2", Should, Client, "a client waits for a task that awaits an authorization", noClient),
	untested(97, "7.6.3", Should, Server, "credentials for a task travel out of band", never("neither the reference agent nor Parley takes credentials in messages")),
	{98, "7.6.4", Must, Server, "a task that awaits an authorization authorizes nothing", "AuthRequiredAuthorizesNothing", "", ""},
	{99, "8.1", Must, Server, "there is a card", "CardIsServed", "", ""},
	{100, "8.3.1", Must, Server, "every interface in the card answers in the binding it names", "CardInterfacesAnswer", "", ""},
	{101, "8.3.2", Must, Client, "the first usable interface of the card is taken, with its address and its tenant in every request, or none", "ClientTakesFirstInterface", "", ""},
	{102, "8.4.1", Must, Server, "what a card's signature covers is canonical", "SignatureIsCanonical", "", ""},
	{103, "8.4.2", Must, Server, "a card's signature names algorithm and key", "SignatureNamesKey", "", ""},
	{104, "8.4.3", Must, Client, "a card's signature is verified with keys that are valid", "SignatureIsVerified", never("the protocol package fetches no cards"), ""},
	{105, "8.6.1", Should, Server, "a card comes with a lifetime and an ETag", "CardIsCacheable", "", ""},
	{106, "8.6.2", Should, Client, "a client asks for changes only of a card it has", "ClientRevalidatesCard", never("the protocol package fetches no cards"), ""},
}

var bindingRows = []Row{
	{107, "9.1, 9.3", Must, Both, "JSON-RPC: 2.0 envelopes in application/json, streams as server-sent events, methods in PascalCase", "RPCEnvelope", "", ""},
	{108, "9.2, 11.2", Must, Both, "version and extensions travel as headers, whatever their case, in one line or several", "ParametersAreHeaders", "", ""},
	{109, "9.5", Must, Server, "JSON-RPC: an error's data is a list of typed objects", "RPCErrorData", "", ""},
	{110, "10.1, 10.2", Must, Server, "gRPC: the normative service, parameters as metadata", "GRPCService", "", ""},
	{111, "10.6", Must, Server, "gRPC: errors carry ErrorInfo", "GRPCErrors", "", ""},
	{112, "11.1", Should, Both, "HTTP+JSON: the media type is application/a2a+json", "RESTMediaType", "", ""},
	{113, "11.5", Must, Both, "HTTP+JSON: GET and DELETE carry their parameters in path and query, in camelCase and escaped", "RESTParameters", "", ""},
	{114, "11.6", Must, Server, "HTTP+JSON: errors are google.rpc.Status with ErrorInfo", "RESTErrors", "", ""},
	{115, "11.7", Must, Server, "HTTP+JSON: each event of a stream is a bare StreamResponse", "RESTStream", "", ""},
	untested(116, "12.1 to 12.7", Must, Server, "a binding of one's own covers everything", noBinding),
	untested(117, "12.8", Should, Server, "a binding of one's own is tested against a reference", noBinding),
}

var guardRows = []Row{
	{118, "13.1", Must, Server, "every operation checks whose the task is before it does anything", "EveryOperationIsAuthorized", "", ""},
	{119, "13.1", Should, Server, "who may do what is documented", "AuthorizationIsDocumented", never("whom an agent serves is written by whoever runs it"), ""},
	{120, "13.2", Should, Server, "deliveries are retried with back-off", "DeliveryBacksOff", never("the reference agent makes one attempt, as 4.3.3 demands"), ""},
	{121, "13.2", Should, Server, "push addresses are checked for where they lead", "PushAddressesAreChecked", never("the reference agent serves tests, on loopback"), ""},
	{122, "13.2", Must, Client, "a receiver checks that a notification is genuine", "ReceiverChecksToken", never("the reference agent receives no push notifications"), ""},
	{123, "13.2", Should, Both, "push tokens are secrets and addresses https", "PushSecretsAreSecret", never("the reference agent serves tests, on loopback"), ""},
	{124, "13.3", Must, Server, "an extended card needs a credential", "ExtendedCardNeedsCredential", "", ""},
	{125, "13.4", Should, Server, "limits on size and complexity, media types checked, HSTS", "InputIsLimited", "", ""},
	{126, "13.4", Must, Both, "credentials do not show in logs", "LogsHoldNoCredentials", "", ""},
	{127, "13.4", Should, Server, "failures to authenticate are logged and limited", "AuthFailuresAreLimited", never("the protocol package knows no credentials"), ""},
	{128, "13.4", Should, Server, "all operations are rate-limited", "OperationsAreRateLimited", never("how often an agent is asked is not the protocol package's"), ""},
	untested(129, "13.4", Must, Server, "the law of data protection is followed", toOperator),
	{130, "14.1.1", Must, Both, "payloads are checked against their schema, and addresses in them are not followed", "PayloadsAreChecked", "", ""},
	{131, "14.3", Must, Server, "the well-known address answers with a card", "WellKnownCard", "", ""},
}
