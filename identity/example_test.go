package identity_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/openlup/pgrail/identity"
	"github.com/openlup/pgrail/identitytest"
)

func ExampleNew() {
	directory := new(identitytest.Memory) // in a real application: pgidentity.New(pool)
	ann := directory.Add(identitytest.HumanAdmin)
	bob := directory.Add(identitytest.HumanAdmin)

	admins, err := identity.New(identity.Config{Gateway: directory, Logger: quiet})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/admins/remove", admins)

	post := func(token, userID string) {
		request := httptest.NewRequest("POST", "/admins/remove", strings.NewReader(`{"userId":"`+userID+`"}`))
		request.Header.Set("Authorization", "Bearer "+token)
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, request)
		fmt.Print(recorder.Code, " ", recorder.Body)
	}
	post(ann.Token, bob.ID.String())
	post(bob.Token, ann.ID.String())
	// Output:
	// 200 {"revoked":true}
	// 401 {"code":"INVALID_TOKEN","error":"Your sign-in is no longer valid. Sign in again."}
}
