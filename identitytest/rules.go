package identitytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/openlup/pgrail/identity"
)

// rule answers what it saw instead, or nil if it holds.
type rule struct {
	name   string
	broken func(*world) error
}

var rules = []rule{
	{"an admin removes another", removesAnother},
	{"an admin removes a machine", removesMachine},
	{"the removed admin's token is dead", removedTokenIsDead},
	{"removing twice finds no admin", removingTwice},
	{"an unknown id finds no admin", unknownTarget},
	{"a user without rights is no admin to remove", targetWithoutRights},
	{"a disabled admin is no admin to remove", disabledTarget},
	{"an unknown token is refused", unknownToken},
	{"a disabled admin's token is refused", disabledCaller},
	{"a user without rights is refused", callerWithoutRights},
	{"a machine is refused", machineCaller},
	{"the own id is refused in every spelling", ownID},
	{"the revoke itself refuses the own id", revokeRefusesSelf},
	{"the revoke itself refuses who is no admin now", revokeRefusesStranger},
	{"the last active human stays", lastHumanStays},
	{"a context that is over changes nothing", overContext},
	{"two remove each other: one is left", mutualOfTwo},
	{"two of three remove each other: two are left", mutualOfThree},
	{"all remove each other: never zero", allAgainstAll},
}

func removesAnother(w *world) error {
	other := w.Add(HumanAdmin)
	return errors.Join(
		w.recorded(1, 0, func() error { return expect("remove", w.remove(w.admin.Token, other.ID.String()), "") }),
		w.admins(false, other), w.admins(true, w.admin))
}

func removesMachine(w *world) error {
	machine := w.Add(MachineAdmin)
	return errors.Join(expect("remove", w.remove(w.admin.Token, machine.ID.String()), ""), w.admins(false, machine))
}

func removedTokenIsDead(w *world) error {
	other := w.Add(HumanAdmin)
	return errors.Join(
		expect("remove", w.remove(w.admin.Token, other.ID.String()), ""),
		expect("the removed admin strikes back", w.remove(other.Token, w.admin.ID.String()), "INVALID_TOKEN", "REMOVE_FORBIDDEN"),
		w.admins(true, w.admin))
}

func removingTwice(w *world) error {
	other := w.Add(HumanAdmin)
	again := func() error {
		return expect("remove again", w.remove(w.admin.Token, other.ID.String()), "ADMIN_NOT_FOUND")
	}
	return errors.Join(expect("remove", w.remove(w.admin.Token, other.ID.String()), ""), w.recorded(0, 1, again))
}

func unknownTarget(w *world) error {
	return w.refused(w.admin.Token, uuid.NewString(), "ADMIN_NOT_FOUND")
}

func targetWithoutRights(w *world) error {
	return w.refused(w.admin.Token, w.Add(Human).ID.String(), "ADMIN_NOT_FOUND")
}

func disabledTarget(w *world) error {
	other := w.Add(HumanAdmin)
	w.Disable(other.ID)
	return w.refused(w.admin.Token, other.ID.String(), "ADMIN_NOT_FOUND")
}

// refused expects one refusal on record and no change.
func (w *world) refused(token, userID, code string) error {
	return w.recorded(0, 1, func() error { return expect("remove", w.remove(token, userID), code) })
}

func unknownToken(w *world) error {
	answer := w.remove("no-such-token", w.Add(HumanAdmin).ID.String())
	return errors.Join(expect("remove", answer, "INVALID_TOKEN"), w.admins(true, w.admin))
}

func disabledCaller(w *world) error {
	other := w.Add(HumanAdmin)
	w.Disable(other.ID)
	answer := w.remove(other.Token, w.admin.ID.String())
	return errors.Join(expect("remove", answer, "INVALID_TOKEN", "REMOVE_FORBIDDEN"), w.admins(true, w.admin))
}

func callerWithoutRights(w *world) error {
	w.Add(HumanAdmin)
	return errors.Join(w.refused(w.Add(Human).Token, w.admin.ID.String(), "REMOVE_FORBIDDEN"), w.admins(true, w.admin))
}

func machineCaller(w *world) error {
	w.Add(HumanAdmin)
	machine := w.Add(MachineAdmin)
	return errors.Join(w.refused(machine.Token, w.admin.ID.String(), "MACHINE_ACTOR_REVOKE_FORBIDDEN"), w.admins(true, w.admin))
}

func ownID(w *world) error {
	w.Add(HumanAdmin)
	id := w.admin.ID.String()
	return errors.Join(
		w.refused(w.admin.Token, id, "SELF_REVOKE_FORBIDDEN"),
		w.refused(w.admin.Token, strings.ToUpper(id), "SELF_REVOKE_FORBIDDEN"),
		w.refused(w.admin.Token, "{"+id+"}", "USER_ID_REQUIRED"),
		w.refused(w.admin.Token, "urn:uuid:"+id, "USER_ID_REQUIRED"),
		w.refused(w.admin.Token, strings.ReplaceAll(id, "-", ""), "USER_ID_REQUIRED"),
		w.admins(true, w.admin))
}

func revokeRefusesSelf(w *world) error {
	w.Add(HumanAdmin)
	code := w.revokeCode(w.admin.ID, w.admin.ID)
	return errors.Join(expect("revoke", identity.Answer{Code: code}, "SELF_REVOKE_FORBIDDEN"), w.admins(true, w.admin))
}

func revokeRefusesStranger(w *world) (err error) {
	disabled := w.Add(HumanAdmin)
	w.Disable(disabled.ID)
	for _, actor := range []uuid.UUID{uuid.New(), uuid.Nil, disabled.ID, w.Add(Human).ID, w.Add(Invited).ID} {
		code := w.revokeCode(actor, w.admin.ID)
		err = errors.Join(err, expect("revoke", identity.Answer{Code: code}, "ADMIN_REQUIRED"))
	}
	return errors.Join(err, w.admins(true, w.admin))
}

// lastHumanStays: whoever tries, by whichever way, one active human among people and machines that do not count remains.
func lastHumanStays(w *world) (err error) {
	others := []Account{w.Add(HumanAdmin), w.Add(HumanAdmin), w.Add(MachineAdmin), w.Add(MachineAdmin), w.Add(MachineAdmin), w.Add(Invited)}
	w.Disable(others[0].ID)
	w.Disable(others[1].ID)
	for _, actor := range append(others, w.admin) {
		if w.remove(actor.Token, w.admin.ID.String()).Revoked || w.revoke(context.Background(), actor.ID, w.admin.ID) == nil {
			err = errors.Join(err, errors.New("the last active human was removed"))
		}
	}
	return errors.Join(err, w.admins(true, w.admin))
}

func overContext(w *world) error {
	other := w.Add(HumanAdmin)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.revoke(ctx, w.admin.ID, other.ID); err == nil {
		return errors.New("revoke under a context that is over succeeded")
	}
	return w.admins(true, other)
}

// rounds is enough for a guard that only counts to be caught on a busy machine, and quick on a real server.
const rounds = 20

func mutualOfTwo(w *world) error {
	a := w.admin
	for range rounds {
		b := w.Add(HumanAdmin)
		answers := w.duel(a, b)
		if err := onlyOne(answers, "LAST_ACTIVE_HUMAN_ADMIN", "ADMIN_REQUIRED"); err != nil {
			return err
		}
		if left := w.remaining(a, b); left != 1 {
			return fmt.Errorf("%d admins are left: want 1", left)
		}
		if answers[1].Revoked {
			a = b
		}
	}
	return nil
}

func mutualOfThree(w *world) error {
	a := w.admin
	for range rounds {
		b, c := w.Add(HumanAdmin), w.Add(HumanAdmin)
		answers := w.duel(a, b)
		if err := onlyOne(answers, "ADMIN_REQUIRED"); err != nil {
			return err
		}
		if left := w.remaining(a, b, c); left != 2 {
			return fmt.Errorf("%d admins are left: want 2", left)
		}
		if answers[1].Revoked {
			a = b
		}
		if err := w.revoke(context.Background(), a.ID, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// onlyOne expects one of a duel's answers to be a success and the other one of the codes.
func onlyOne(answers [2]identity.Answer, codes ...string) error {
	if answers[0].Revoked == answers[1].Revoked {
		return fmt.Errorf("answers %+v: want exactly one success", answers)
	}
	return errors.Join(expect("first", answers[0], append(codes, "")...), expect("second", answers[1], append(codes, "")...))
}

func allAgainstAll(w *world) error {
	all := []Account{w.admin}
	for range 5 {
		all = append(all, w.Add(HumanAdmin))
	}
	var done sync.WaitGroup
	for i := range len(all) * len(all) {
		done.Go(func() { w.remove(all[i/len(all)].Token, all[i%len(all)].ID.String()) })
	}
	done.Wait()
	if left := w.remaining(all...); left != 1 {
		return fmt.Errorf("%d admins are left: want 1", left)
	}
	return nil
}
