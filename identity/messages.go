package identity

// Messages are the texts that people read, one per row of the two tables. Replace them as a whole: take [English] or
// [German] and change fields.
type Messages struct {
	Unauthorized        string // no access token
	InvalidToken        string // the token resolves to nobody
	RemoveForbidden     string // the caller is no admin
	UserIDRequired      string // no user id, or none that is a uuid
	SelfRemoveForbidden string // the user id is the caller's own
	LastAdmin           string // nobody would remain
	SelfRevoke          string // the revoke itself found the caller's own id
	MachineRevoke       string // the caller is a machine
	AdminNotFound       string // the target is no admin, or no active one
	AdminRequired       string // the caller lost its rights since it was looked up

	// RevokeFailed renders every other failure. It is given the failure's text, which may name hosts, users and databases:
	// what it returns is sent to the client, so the shipped ones return a fixed text.
	RevokeFailed func(text string) string
	ActionFailed string // anything else went wrong
}

// English returns the texts that a zero [Config].Messages stands for.
func English() Messages {
	return Messages{
		Unauthorized:        "Sign in first.",
		InvalidToken:        "Your sign-in is no longer valid. Sign in again.",
		RemoveForbidden:     "Only an admin may remove an admin.",
		UserIDRequired:      "Say which admin to remove: userId must be a UUID.",
		SelfRemoveForbidden: "You cannot remove yourself.",
		LastAdmin:           "This is the last active admin. Appoint another one first.",
		SelfRevoke:          "You cannot revoke your own admin rights.",
		MachineRevoke:       "A machine account cannot revoke admin rights.",
		AdminNotFound:       "There is no active admin with this id.",
		AdminRequired:       "You are not an active admin any more.",
		RevokeFailed:        func(string) string { return "The admin could not be removed. Try again later." },
		ActionFailed:        "Something went wrong on our side. Try again later.",
	}
}

// German returns the same texts in German.
func German() Messages {
	return Messages{
		Unauthorized:        "Bitte zuerst anmelden.",
		InvalidToken:        "Die Anmeldung ist nicht mehr gültig. Bitte neu anmelden.",
		RemoveForbidden:     "Nur Admins dürfen Admins entfernen.",
		UserIDRequired:      "Bitte angeben, wer entfernt werden soll: userId muss eine UUID sein.",
		SelfRemoveForbidden: "Sie können sich nicht selbst entfernen.",
		LastAdmin:           "Das ist der letzte aktive Admin. Bitte zuerst einen weiteren ernennen.",
		SelfRevoke:          "Sie können sich die Adminrechte nicht selbst entziehen.",
		MachineRevoke:       "Ein Maschinenkonto kann keine Adminrechte entziehen.",
		AdminNotFound:       "Zu dieser Kennung gibt es keinen aktiven Admin.",
		AdminRequired:       "Sie sind kein aktiver Admin mehr.",
		RevokeFailed:        func(string) string { return "Der Admin konnte nicht entfernt werden. Bitte später erneut versuchen." },
		ActionFailed:        "Bei uns ist etwas schiefgegangen. Bitte später erneut versuchen.",
	}
}
